package config

import "strings"

// form describes a text: a pattern for both Go and JSON Schema, and the same in words.
type form struct{ pattern, want string }

// Parts of patterns.
const (
	decimal   = `(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]{1,2})?`
	brackets  = `\[([0-9]{1,7}|"[^"]+"|'[^']+')\]`
	plainName = `[^\s.\[\]*?()"'$@]+`
	source    = `([$@]|` + plainName + `|` + brackets + `)([.]` + plainName + `|` + brackets + `)*`
	anyNumber = `[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,2})?`

	subjectToken = `[^ \t\r\n.*>{}\x00]+`
	firstWord    = `[^$ \t\r\n.*>{}\x00][^ \t\r\n.*>{}\x00]*`
	wildcard     = `[*]|[{][A-Za-z_][A-Za-z0-9_]{0,31}[}]`
	tokens       = `([.](` + subjectToken + `|` + wildcard + `))*([.]>)?`

	registerAt = `(0|[1-9][0-9]{0,5})`
	noValue    = `(0x[0-9a-fA-F]{1,16}|-?` + decimal + `)`
)

// forms are shared or long patterns. The tag form of a field names one; the suffix ",optional"
// also permits an empty text.
var forms = map[string]form{
	"job": {`[a-z0-9][a-z0-9_-]{0,31}`, "at most 32 lower-case letters, digits, - and _"},
	// The last part matches numbers up to 65535.
	"address": {`([^:\[\]]*|\[[^\[\]]*\]):([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])`,
		"host:port or :port, such as 127.0.0.1:9464"},
	"host": {`([0-9A-Za-z]([0-9A-Za-z_.-]*[0-9A-Za-z])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(%[0-9A-Za-z_.-]+)?)`,
		"one address or name of this machine without a port, such as 127.0.0.1, 10.0.0.5 or ::1, or 0.0.0.0 for all of its addresses"},
	// A single subject needs a wildcard; several subjects may have none.
	"subject": {`(` + firstWord + `([.]` + subjectToken + `)*[.](>|(` + wildcard + `)` + tokens + `)|` + firstWord + tokens + `( +` + firstWord + tokens + `)+)`,
		"tokens with a wildcard, such as sensors.*, plant.{site}.line.{line} or plant.>, the first one a word, without a leading $; several with a blank between"},
	"beginning": {`(beginning|now|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2}))`,
		`beginning, now, or a time in quotes such as "2026-01-31T08:00:00Z"`},
	"source": {source, `a source such as $.axis.x or $["a name"]`},
	"scaled source": {source + `( [*] -?` + anyNumber + `)?( [+-] ` + anyNumber + `)?`,
		"channels with a source each, such as {c0: $.axis.x, c1: $.axis.y * 0.1}, in quotes where YAML reads something else than a text"},
	// Package internal/gateway/modbus has the same pattern; a test of the commands compares
	// both.
	"register": {`([^ ,/]+:[0-9]{1,5}/)?((0|[1-9][0-9]{0,2})/)?((holding|input):` + registerAt + `:(int16|uint16|int32|uint32|float32|float64)(:(abcd|badc|cdab|dcba))?|(coil|discrete):` + registerAt + `)` +
		`( [*] -?` + decimal + `)?( [+-] ` + decimal + `)?( without (sunspec|` + noValue + `(,` + noValue + `)*))?`,
		"registers, such as {pump7/x: holding:100:float32, pump7/y: input:7:int16 * 0.1 - 40}"},
}

// formOf returns the form of a tag, with a pattern for the whole text. It panics if the form is
// unknown.
func formOf(tag string) form {
	name, optional, _ := strings.Cut(tag, ",")
	f, found := forms[name]
	if !found || optional != "" && optional != "optional" {
		panic("BUG: no form " + tag)
	}
	f.pattern = "^" + f.pattern + "$"
	if optional != "" {
		f.pattern, f.want = "^$|"+f.pattern, f.want+", or nothing"
	}
	return f
}
