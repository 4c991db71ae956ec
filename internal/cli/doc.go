// Package cli holds the parts shared by all commands of the program: output (App), errors and exit codes (Fail),
// checks of output files (OutputFile, ReplaceFile), and the name of the build. The commands are added in package
// root.
//
// # Files
//
//   - app.go: holds the state shared by all commands: output, progress, global flags
//   - exit.go: defines the exit codes and maps errors to exit codes
//   - message.go: writes errors in messages
//   - advice.go: adds the flags of server and job to commands in advice texts
//   - files.go: checks paths before work begins; replaces files
//   - log.go: creates the log, as text or JSON
//   - rules.go: checks the rules of flags, and reports the first that is broken
//   - time.go: parses points in time
//   - build.go: reads the version of the program
package cli
