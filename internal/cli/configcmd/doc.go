// Package configcmd is the command "config", and the loading of the configuration file for all
// commands. The keys are in internal/config.
//
// # Files
//
//   - command.go: defines the commands config init, check and schema
//   - load.go: loads the configuration for all commands: file, environment, flags
//   - outputs.go: checks the receivers of alarms
//   - secure.go: creates certificates and users (secure init, docs/secure.md)
package configcmd
