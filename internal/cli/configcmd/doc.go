// Package configcmd is the command "config", and how every command reads the
// configuration file. What the keys are is in internal/config.
package configcmd
