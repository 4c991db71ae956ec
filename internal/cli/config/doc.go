// Package config is the configuration of the stage: its keys and defaults
// (default.yaml), where each value comes from (file, environment, flag), what is
// wrong with it, and the command "config".
package config
