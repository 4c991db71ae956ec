// Package configcmd is the command "config", and how every command reads the
// configuration file. The keys are in internal/config.
package configcmd
