// Package config is the configuration of the stage: its keys, how their values
// are read, and where each value comes from. It knows no command and no stage.
//
// # One place for a key
//
// Config's fields (config.go) say all of a key: name, type, default, values,
// flag, and in the comment what it does. To add a key, add a field and run
//
//	go generate ./internal/config
//
// which writes default.yaml (what "eusn-stream config init" gives),
// schema.json ("eusn-stream config schema", JSON Schema draft 2020-12) and the
// table in docs/configuration.md. A test fails when they differ from the fields.
//
// # How a value is found
//
// Load takes, for each key, the first of: a flag, an environment variable, the
// file, the default. All are text until one function, parse, reads them by the
// field's type; so a value means the same wherever it is written. viper finds
// the values and mapstructure puts them into the struct. A text without quotes
// that YAML would change (0123 is 83 to it) is refused.
//
// # Errors
//
// Load reports every problem at once. A FieldError has the key, the value, what
// was wanted and where the value comes from; an UnknownKeyError has the known
// key that is most like it. The schema cannot compare two keys or two durations,
// and does not know what flags and environment add: only Load refuses those.
//
// # Files
//
//   - config.go: defines each key with type, default and limits (stage.latency is Stage.Latency)
//   - field.go: reads the tags of the fields of Config
//   - form.go: defines the patterns of texts
//   - load.go: sets each key from flag, environment, file or default
//   - file.go: parses the YAML file
//   - mapping.go: parses groups of free names
//   - check.go: checks values and rules over several keys; lists warnings
//   - bytes.go: parses sizes such as 8MiB
//   - errors.go: defines the errors, with file and line
package config
