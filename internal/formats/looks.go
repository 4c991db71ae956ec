package formats

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// mostLooked is the number of bytes that decide the probable format.
const mostLooked = 512

// Looks guesses the format of a message from its first bytes: a format with a decoder in
// this package (empty: none), and a description (empty: unknown). The decoders repeat
// every check.
func Looks(payload []byte) (f Format, words string) {
	if bytes.HasPrefix(payload, []byte{0xff, 0xff, 0xff, 0xff}) {
		return Arrow, "an Arrow IPC stream"
	}
	for _, m := range magics {
		if bytes.HasPrefix(payload, []byte(m.begins)) {
			return "", m.words
		}
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(payload, byteOrderMark), " \t\r\n")
	switch {
	case len(text) == 0:
		return "", "nothing but blanks"
	case text[0] == '{' || text[0] == '[':
		return JSON, "JSON"
	}
	if text = skipComments(text); len(text) == 0 {
		return Influx, "Influx line protocol" // only comments
	}
	switch {
	case !printable(text[:min(len(text), mostLooked)]):
		return "", "binary data"
	case text[0] == '<':
		return "", "XML or HTML"
	}
	line, more, _ := bytes.Cut(text[:min(len(text), mostLooked)], []byte("\n"))
	line, more = bytes.TrimRight(line, "\r"), bytes.TrimSpace(more)
	switch word := bytes.TrimSpace(line); {
	case len(more) == 0 && (isDecimal(word) || bytes.HasPrefix(word, []byte(`"`)) && !bytes.ContainsAny(word, ",;\t") || jsonWord(word)):
		return JSON, singleValue
	case isLine(line):
		return Influx, "Influx line protocol"
	case bytes.ContainsAny(line, ",;\t|") || len(more) > 0:
		return CSV, "CSV"
	}
	return "", "a text"
}

// singleValue describes JSON that may be many other things.
const singleValue = "JSON (a single value)"

// magics are the first bytes of other file types.
var magics = []magic{
	{"ARROW1", "an Arrow file (send the stream format: RecordBatchStreamWriter, not RecordBatchFileWriter)"},
	{"PAR1", "a Parquet file"},
	{"\x1f\x8b", "gzip"},
	{"\x28\xb5\x2f\xfd", "zstd"},
	{"\x04\x22\x4d\x18", "lz4"},
	{"Obj\x01", "Avro"},
	{"PK\x03\x04", "a zip file"},
}

type magic struct{ begins, words string }

// skipComments skips lines that begin with #, as in line protocol and in the CSV of some
// loggers, and empty lines.
func skipComments(text []byte) []byte {
	for len(text) > 0 && text[0] == '#' {
		_, text, _ = bytes.Cut(text, []byte("\n"))
		text = bytes.TrimLeft(text, " \t\r\n")
	}
	return text
}

func jsonWord(word []byte) bool {
	return string(word) == "null" || string(word) == "true" || string(word) == "false"
}

// printable reports whether a text, possibly truncated, has no control characters except
// blanks.
func printable(text []byte) bool {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			return len(text) < utf8.UTFMax && !utf8.FullRune(text)
		}
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		text = text[n:]
	}
	return true
}

// isLine reports whether a line resembles line protocol: a blank, and a field's "=" after
// the blank.
func isLine(line []byte) bool {
	for i := 1; i < len(line); i++ {
		if line[i] == ' ' && line[i-1] != '\\' {
			field, _, ok := bytes.Cut(line[i+1:], []byte("="))
			return ok && len(field) > 0 && !bytes.ContainsAny(field, " ")
		}
	}
	return false
}
