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

// restarts are what the manager does after a failure; the last one after each that follows.
var restarts = []mgr.RecoveryAction{
	{Type: mgr.ServiceRestart, Delay: 5 * time.Second},
	{Type: mgr.ServiceRestart, Delay: 5 * time.Second},
	{Type: mgr.ServiceRestart, Delay: time.Minute},
}

// failuresForgotten is after how many seconds without a failure the first of restarts holds
// again.
const failuresForgotten = 24 * 60 * 60

// Install makes a service of this program, which begins with Windows, some time after the
// services that Windows needs, and is started again after failures. It does not start it.
func Install(p Plan) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	m, err := mgr.Connect()
	if err != nil {
		return refused(err)
	}
	defer m.Disconnect()
	s, err := m.CreateService(p.Name, program, mgr.Config{
		DisplayName: p.Name, Description: "Classification of streams of sensor samples (eusn-stream " + strings.Join(p.Args, " ") + ")",
		StartType: mgr.StartAutomatic, ServiceStartName: p.Account,
	}, p.Args...)
	if err != nil {
		return refused(err)
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
		if set != nil && !errors.Is(set, windows.ERROR_INVALID_LEVEL) { // Wine does not know all of these
			return fmt.Errorf("service: when it starts, and what to do after a failure: %w", set)
		}
	}
	return folders(p)
}

// folders makes the folder of all services, which administrators write and services read,
// and that of this one, for its account alone. Others on this machine read neither: there
// are passwords in configurations, and samples in the data.
func folders(p Plan) error {
	all, err := home()
	if err != nil {
		return err
	}
	services, err := windows.StringToSid("S-1-5-80-0") // NT SERVICE\ALL SERVICES
	if err != nil {
		return err
	}
	if err := private(all, services, windows.GENERIC_READ|windows.GENERIC_EXECUTE); err != nil {
		return err
	}
	own, err := Folder(p.Name)
	if err != nil {
		return err
	}
	if strings.EqualFold(p.Account, "LocalSystem") {
		return private(own, nil, 0)
	}
	account, _, _, err := windows.LookupSID("", p.Account)
	if err != nil {
		return fmt.Errorf("service: account %s: %w", p.Account, err)
	}
	return private(own, account, windows.GENERIC_ALL)
}

// private makes a folder that only the system, administrators and one more may use.
func private(folder string, also *windows.SID, may windows.ACCESS_MASK) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	var entries []windows.EXPLICIT_ACCESS
	allow := func(who *windows.SID, may windows.ACCESS_MASK) {
		entries = append(entries, windows.EXPLICIT_ACCESS{
			AccessPermissions: may, AccessMode: windows.GRANT_ACCESS, Inheritance: windows.SUB_CONTAINERS_AND_OBJECTS_INHERIT,
			Trustee: windows.TRUSTEE{TrusteeForm: windows.TRUSTEE_IS_SID, TrusteeValue: windows.TrusteeValueFromSID(who)},
		})
	}
	for _, known := range []windows.WELL_KNOWN_SID_TYPE{windows.WinLocalSystemSid, windows.WinBuiltinAdministratorsSid} {
		who, err := windows.CreateWellKnownSid(known)
		if err != nil {
			return fmt.Errorf("service: %w", err)
		}
		allow(who, windows.GENERIC_ALL)
	}
	if also != nil {
		allow(also, may)
	}
	list, err := windows.ACLFromEntries(entries, nil)
	if err != nil {
		return fmt.Errorf("service: who may use %s: %w", folder, err)
	}
	err = windows.SetNamedSecurityInfo(folder, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
	if err != nil {
		return fmt.Errorf("service: who may use %s: %w", folder, err)
	}
	return nil
}

// Uninstall stops and removes a service; its folder stays.
func Uninstall(ctx context.Context, name string) error {
	m, err := mgr.Connect()
	if err != nil {
		return refused(err)
	}
	defer m.Disconnect()
	s, err := m.OpenService(name)
	if err != nil {
		return refused(err)
	}
	defer s.Close()
	if _, err := s.Control(svc.Stop); err != nil && !errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return fmt.Errorf("service: %s cannot be stopped now: %w", name, err)
	}
	for {
		at, err := s.Query()
		if err != nil {
			return refused(err)
		}
		if at.State == svc.Stopped {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	if err := s.Delete(); err != nil {
		return refused(err)
	}
	return nil
}

// Look says how a service is. It needs no rights of an administrator.
func Look(name string) (Report, error) {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return Report{}, refused(err)
	}
	defer windows.CloseServiceHandle(manager)
	as, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return Report{}, err
	}
	handle, err := windows.OpenService(manager, as, windows.SERVICE_QUERY_STATUS|windows.SERVICE_QUERY_CONFIG)
	if err != nil {
		return Report{}, refused(err)
	}
	s := &mgr.Service{Name: name, Handle: handle}
	defer s.Close()
	at, err := s.Query()
	if err != nil {
		return Report{}, refused(err)
	}
	buf := make([]byte, 8<<10) // Windows never has more to say
	is := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buf[0]))
	var need uint32
	if err := windows.QueryServiceConfig(handle, is, uint32(len(buf)), &need); err != nil {
		return Report{}, refused(err)
	}
	folder, err := Folder(name)
	if err != nil {
		return Report{}, err
	}
	r := Report{Name: name, State: "in a state that this program does not know", Process: at.ProcessId, ExitCode: at.Win32ExitCode, Command: windows.UTF16PtrToString(is.BinaryPathName), Account: windows.UTF16PtrToString(is.ServiceStartName), Folder: folder, Log: logOf(folder, name)}
	switch at.State {
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
		r.ExitCode = at.ServiceSpecificExitCode
	}
	if r.ExitCode == uint32(windows.ERROR_SERVICE_NEVER_STARTED) {
		r.State, r.ExitCode = "not started yet", 0
	}
	return r, nil
}

// refused says what an error of the manager means.
func refused(err error) error {
	switch {
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return fmt.Errorf("service: Windows refuses it: this needs the rights of an administrator (start the terminal with \"Run as administrator\"): %w", err)
	case errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST):
		return fmt.Errorf("service: there is no service of this name: %w", err)
	case errors.Is(err, windows.ERROR_SERVICE_EXISTS), errors.Is(err, windows.ERROR_DUPLICATE_SERVICE_NAME):
		return fmt.Errorf("service: there is a service of this name already: uninstall it, or give another --name: %w", err)
	}
	return fmt.Errorf("service: %w", err)
}
