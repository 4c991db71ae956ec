// Package service is what the program is for the service manager that started it: systemd,
// through internal/systemd, or the service manager of Windows. Without one, nothing
// changes.
//
// Windows wants more than systemd does: a service answers its manager from its first second
// on, has no standard output, and begins in a folder of the system. So Run gives it a folder
// of its own below %ProgramData%\eusn-stream, with its log, and Install makes the service and
// the folder. Only those parts are for Windows alone; what is told to the manager, and when,
// is in supervise, which runs everywhere.
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
