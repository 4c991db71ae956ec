// Package config is the configuration of the stage: its keys, the parsing of their values, and
// the source of each value. It depends on no command and no stage.
//
// # One definition per key
//
// The fields of Config (config.go) define each key: name, type, default, values, flag, and the
// description in the comment. To add a key, add a field and run
//
//	go generate ./internal/config
//
// to generate default.yaml (the output of "eusn-stream config init"), schema.json ("eusn-stream
// config schema", JSON Schema draft 2020-12) and the table in docs/configuration.md. A test
// fails if these files differ from the fields.
//
// # Sources of a value
//
// Load uses, for each key, the first of: a flag, an environment variable, the file, the
// default. All are text until one function, parseText, parses them by the field's type; so a
// value has the same meaning in every source. viper finds the values and mapstructure stores
// them in the struct. An unquoted text that YAML would change (0123 becomes 83) is refused.
//
// # Errors
//
// Load reports all problems together. A FieldError has the key, the value, the expected values
// and the source; an UnknownKeyError has the most similar known key. The schema cannot compare
// two keys or two durations, and does not know flags and environment variables: only Load
// refuses such errors.
//
// # Files
//
//   - config.go: defines each key with type, default and limits (stage.latency is Stage.Latency)
//   - field.go: reads the tags of the fields of Config
//   - form.go: defines the patterns of texts
//   - basic.go: selects the keys that most installations set
//   - load.go: sets each key from flag, environment, file or default
//   - file.go: parses the YAML file
//   - mapping.go: parses groups of free names
//   - check.go: checks values and rules over several keys; lists warnings
//   - bytes.go: parses sizes such as 8MiB
//   - errors.go: defines the errors, with file and line
package config
