// Package service connects the program with the service manager that started it: systemd,
// through internal/systemd, or the service manager of Windows. Without a service manager,
// nothing changes.
//
// Windows requires more than systemd: a service must answer its manager from the first second,
// has no standard output, and starts in a system folder. So Run uses a separate folder below
// %ProgramData%\eusn-stream with the service's log, and Install creates the service and the
// folder. Only these parts are specific to Windows; the reports to the manager are in
// supervise, which runs everywhere.
//
// # Files
//
//   - service.go: reports readiness and status to the service manager
//   - plan.go: checks the plan of a new service
//   - supervise.go: runs the program and reports its state
//   - logfile.go: writes the log of a service and rotates full files
//   - install_windows.go: installs and removes a service of Windows
//   - run_windows.go: runs the program as a service of Windows
//   - run_other.go: runs the program on other systems
package service
