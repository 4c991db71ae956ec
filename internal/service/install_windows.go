package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// restarts are the manager's actions after consecutive failures; the last action repeats.
var restarts = []mgr.RecoveryAction{
	{Type: mgr.ServiceRestart, Delay: 5 * time.Second},
	{Type: mgr.ServiceRestart, Delay: 5 * time.Second},
	{Type: mgr.ServiceRestart, Delay: time.Minute},
}

// failuresForgotten is the time in seconds without a failure until the first restart action
// applies again.
const failuresForgotten = 24 * 60 * 60

// Install installs this program as a service. The service starts with Windows, shortly after
// the services of Windows, and restarts after failures. Install does not start the service.
func Install(p Plan) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	m, err := mgr.Connect()
	if err != nil {
		return explainError(err)
	}
	defer m.Disconnect()
	s, err := m.CreateService(p.Name, program, mgr.Config{
		DisplayName: p.Name, Description: "Classification of streams of sensor samples (eusn-stream " + strings.Join(p.Args, " ") + ")",
		StartType: mgr.StartAutomatic, ServiceStartName: p.Account,
	}, p.Args...)
	if err != nil {
		return explainError(err)
	}
	defer s.Close()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Delete())
		}
	}()
	delayed := windows.SERVICE_DELAYED_AUTO_START_INFO{IsDelayedAutoStartUp: 1}
	kind := uint32(windows.SERVICE_SID_TYPE_UNRESTRICTED)
	for _, set := range []error{
		windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, (*byte)(unsafe.Pointer(&delayed))),
		windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_SERVICE_SID_INFO, (*byte)(unsafe.Pointer(&kind))),
		s.SetRecoveryActions(restarts, failuresForgotten),
		s.SetRecoveryActionsOnNonCrashFailures(true),
	} {
		if set != nil && !errors.Is(set, windows.ERROR_INVALID_LEVEL) { // Wine does not support all settings
			return fmt.Errorf("service: settings of start and restart: %w", set)
		}
	}
	return createFolders(p)
}

// createFolders creates the folder of all services, writable by administrators and readable by
// services, and the folder of this service, only for its account. Other users can read neither:
// configurations contain passwords, and the data contain samples.
func createFolders(p Plan) error {
	parent, err := servicesFolder()
	if err != nil {
		return err
	}
	services, err := windows.StringToSid("S-1-5-80-0") // NT SERVICE\ALL SERVICES
	if err != nil {
		return err
	}
	if err := createPrivate(parent, services, windows.GENERIC_READ|windows.GENERIC_EXECUTE); err != nil {
		return err
	}
	folder, err := Folder(p.Name)
	if err != nil {
		return err
	}
	if strings.EqualFold(p.Account, "LocalSystem") {
		return createPrivate(folder, nil, 0)
	}
	account, _, _, err := windows.LookupSID("", p.Account)
	if err != nil {
		return fmt.Errorf("service: account %s: %w", p.Account, err)
	}
	return createPrivate(folder, account, windows.GENERIC_ALL)
}

// createPrivate creates a folder for the system, administrators and one other account.
func createPrivate(folder string, account *windows.SID, rights windows.ACCESS_MASK) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	var entries []windows.EXPLICIT_ACCESS
	allow := func(sid *windows.SID, mask windows.ACCESS_MASK) {
		entries = append(entries, windows.EXPLICIT_ACCESS{
			AccessPermissions: mask, AccessMode: windows.GRANT_ACCESS, Inheritance: windows.SUB_CONTAINERS_AND_OBJECTS_INHERIT,
			Trustee: windows.TRUSTEE{TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeValue: windows.TrusteeValueFromSID(sid)},
		})
	}
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid} {
		sid, err := windows.CreateWellKnownSid(known)
		if err != nil {
			return fmt.Errorf("service: %w", err)
		}
		allow(sid, windows.GENERIC_ALL)
	}
	if account != nil {
		allow(account, rights)
	}
	list, err := windows.ACLFromEntries(entries, nil)
	if err != nil {
		return fmt.Errorf("service: access to %s: %w", folder, err)
	}
	err = windows.SetNamedSecurityInfo(folder, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
	if err != nil {
		return fmt.Errorf("service: access to %s: %w", folder, err)
	}
	return nil
}

// Uninstall stops and removes a service; its folder stays.
func Uninstall(ctx context.Context, name string) error {
	m, err := mgr.Connect()
	if err != nil {
		return explainError(err)
	}
	defer m.Disconnect()
	s, err := m.OpenService(name)
	if err != nil {
		return explainError(err)
	}
	defer s.Close()
	if _, err := s.Control(svc.Stop); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return fmt.Errorf("service: %s cannot be stopped now: %w", name, err)
	}
	for {
		status, err := s.Query()
		if err != nil {
			return explainError(err)
		}
		if status.State == svc.Stopped {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	if err := s.Delete(); err != nil {
		return explainError(err)
	}
	return nil
}

// Query returns the state of a service. It needs no administrator rights.
func Query(name string) (Report, error) {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return Report{}, explainError(err)
	}
	defer windows.CloseServiceHandle(manager)
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return Report{}, err
	}
	handle, err := windows.OpenService(manager, text, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return Report{}, explainError(err)
	}
	s := &mgr.Service{Name: name, Handle: handle}
	defer s.Close()
	status, err := s.Query()
	if err != nil {
		return Report{}, explainError(err)
	}
	buf := make([]byte, 8<<10) // the maximum of Windows
	settings := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
	var need uint32
	if err := windows.QueryServiceConfig(handle, settings, uint32(len(buf)), &need); err != nil {
		return Report{}, explainError(err)
	}
	folder, err := Folder(name)
	if err != nil {
		return Report{}, err
	}
	r := Report{Name: name, State: "unknown", Process: status.ProcessId, ExitCode: status.Win32ExitCode, Command: windows.UTF16PtrToString(settings.BinaryPathName), Account: windows.UTF16PtrToString(settings.ServiceStartName), Folder: folder, Log: logOf(folder, name)}
	switch status.State {
	case svc.Running:
		r.State = Running
	case svc.Stopped:
		r.State = "stopped"
	case svc.StartPending:
		r.State = "starting"
	case svc.StopPending:
		r.State = "stopping"
	}
	if r.ExitCode == uint32(windows.ERROR_SERVICE_SPECIFIC_ERROR) {
		r.ExitCode = status.ServiceSpecificExitCode
	}
	if r.ExitCode == uint32(windows.ERROR_SERVICE_NEVER_STARTED) {
		r.State, r.ExitCode = "not started yet", 0
	}
	return r, nil
}

// explainError adds the meaning to an error of the manager.
func explainError(err error) error {
	switch {
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return fmt.Errorf("service: Windows refuses the operation: administrator rights are required (start the terminal with \"Run as administrator\"): %w", err)
	case errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST):
		return fmt.Errorf("service: no service of this name exists: %w", err)
	case errors.Is(err, windows.ERROR_SERVICE_EXISTS), errors.Is(err, windows.ERROR_DUPLICATE_SERVICE_NAME):
		return fmt.Errorf("service: a service of this name exists: uninstall it, or choose another --name: %w", err)
	}
	return fmt.Errorf("service: %w", err)
}
