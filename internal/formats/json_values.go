package formats

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eusn-stream/eusn-stream/codec"
)

// readLeaf reads a value with a source, or an array of such values.
func (d *jsonDecoder) readLeaf(target int, m *marks, row int) error {
	if target >= 0 {
		d.found[target] = true
	}
	if d.tokens.PeekKind() != '[' {
		return d.readScalar(target, m, row)
	}
	if err := d.skipToken(); err != nil {
		return err
	}
	for d.tokens.PeekKind() != ']' {
		if err := d.readScalar(target, m, row); err != nil {
			return err
		}
	}
	return d.skipToken()
}

func (d *jsonDecoder) readScalar(target int, m *marks, row int) error {
	k := d.tokens.PeekKind()
	if k != '"' && k != '0' && k != 't' && k != 'f' && k != 'n' {
		return d.refuse(target, row)
	}
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return d.syntaxError(err)
	}
	text := []byte(raw)
	if k == '"' {
		text = d.unquote(raw)
	}
	ok := true
	switch target {
	case timeTarget:
		ns := int64(codec.NoTime)
		if k != 'n' {
			ns, ok = timeOf(text, digitsOf[d.TimeUnit])
		}
		m.times = append(m.times, ns)
	case streamTarget:
		ok = k == '"' || k == '0' && !bytes.ContainsAny(text, ".eE")
		m.addStream(text)
	case endTarget:
		ok = k == 't' || k == 'f' || k == 'n'
		m.ends = append(m.ends, k == 't')
	default:
		x := codec.Null()
		switch k {
		case 't', 'f':
			x = d.channels[target].fromBool(k == 't')
		case '"', '0':
			x, ok = d.channels[target].fromText(text)
		}
		d.cols[target] = append(d.cols[target], x)
	}
	if !ok {
		return d.wrongValue(target, row, cutShort(raw))
	}
	return nil
}

// refuse reports an object or an array in place of a value.
func (d *jsonDecoder) refuse(target, row int) error {
	what := "an object"
	switch d.tokens.PeekKind() {
	case '[':
		what = "an array in an array"
	case '{':
	default:
		return d.skipValue() // a syntax error
	}
	return d.wrongValue(target, row, what)
}

// wrongValue returns the error of a value that does not fit its target.
func (d *jsonDecoder) wrongValue(target, row int, got string) error {
	switch target {
	case timeTarget:
		return mismatch(JSON, "row %d, time (%s): want a number of %s since 1970 or a text such as \"2026-01-31T12:00:00Z\", got %s", row, d.layout.time.text, d.TimeUnit, got)
	case streamTarget:
		return mismatch(JSON, "row %d, stream id (%s): want a text or a whole number, got %s", row, d.layout.stream.text, got)
	case endTarget:
		return mismatch(JSON, "row %d, end mark (%s): want true or false, got %s", row, d.layout.end.text, got)
	}
	return mismatch(JSON, "row %d, channel %q (%s): want a number, got %s", row, d.schema.Channels[target], d.channels[target].text, got)
}

// unexpected returns the error of a value without rows or samples.
func (d *jsonDecoder) unexpected(row int, what, where, want string) error {
	got := map[jsontext.Kind]string{'n': "null", 't': "true", 'f': "false", '"': "a text", '0': "a number", '{': "an object", '[': "an array"}[d.tokens.PeekKind()]
	if got == "" {
		return d.skipValue() // a syntax error
	}
	if where != "" {
		what += " (" + where + ")"
	}
	if what == "row" {
		what = fmt.Sprintf("row %d", row)
	}
	return mismatch(JSON, "%s: want %s, got %s", what, want, got)
}

func (d *jsonDecoder) skipToken() error {
	_, err := d.tokens.ReadToken()
	return d.syntaxError(err)
}

func (d *jsonDecoder) skipValue() error { return d.syntaxError(d.tokens.SkipValue()) }

// unquote returns the text of a JSON string, valid until the next value.
func (d *jsonDecoder) unquote(raw jsontext.Value) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	d.text, _ = jsontext.AppendUnquote(d.text[:0], raw) // checked by the tokenizer
	return d.text
}

// syntaxError explains the tokenizer's error.
func (d *jsonDecoder) syntaxError(err error) error {
	if err == nil {
		return nil
	}
	hint := ""
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && isNotFinite(wordAt(d.payload, syntactic.ByteOffset)) {
		hint = ": JSON has no NaN and no Infinity, send null, with " + needsPolicy
	}
	return malformed(JSON, "%s%s", strings.TrimPrefix(err.Error(), "jsontext: "), hint)
}

// wordAt returns the word at a byte, or after the byte.
func wordAt(text []byte, at int64) []byte {
	isWord := func(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '-' || c == '+' }
	from := min(int(at), len(text))
	for from > 0 && isWord(text[from-1]) && int(at)-from < len("-infinity") {
		from--
	}
	to := from
	for to < len(text) && isWord(text[to]) && to-from <= len("-infinity") {
		to++
	}
	return text[from:to]
}

// isNotFinite reports whether a word is a notation of a number that is not finite.
func isNotFinite(word []byte) bool {
	x, ok := special(word)
	return ok && (math.IsNaN(float64(x)) || math.IsInf(float64(x), 0))
}

// Bounds of namesIn.
const (
	mostNames = 13 // list shows one fewer
	mostDepth = 8
)

// namesIn lists the paths of the values in a message, for an array of objects the paths
// of the first element. It stops at a syntax error.
func namesIn(payload []byte) []string {
	tokens := jsontext.NewDecoder(bytes.NewReader(bytes.TrimPrefix(payload, byteOrderMark)))
	var all []string
	var visit func(at string, depth int) bool
	visit = func(at string, depth int) bool {
		switch tokens.PeekKind() {
		case '{':
			if depth == mostDepth {
				break
			}
			_, _ = tokens.ReadToken()
			for tokens.PeekKind() == '"' {
				name, err := tokens.ReadToken()
				if err != nil || !visit(at+stepText(name.String()), depth+1) {
					return false
				}
			}
			_, err := tokens.ReadToken()
			return err == nil
		case '[':
			if depth == mostDepth {
				break
			}
			_, _ = tokens.ReadToken()
			if k := tokens.PeekKind(); k == '{' || k == '[' {
				if !visit(at+"[]", depth+1) {
					return false
				}
			} else {
				all = append(all, at+"[]")
			}
			return false // the first element represents the rest
		}
		all = append(all, at)
		return tokens.SkipValue() == nil && len(all) < mostNames
	}
	visit("", 0)
	for i, name := range all {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "[]"), ".")
		if len(name) > 60 {
			name = name[:60] + "..."
		}
		all[i] = strings.ToValidUTF8(name, "?")
	}
	return all
}
