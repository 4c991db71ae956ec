package outcome

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Named is an answer with the names of its classes, for JSON and CSV.
type Named struct {
	*Answer
	Labels []string
}

// MarshalJSON returns an object with the columns that have a value.
func (n Named) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := range Columns {
		c := &Columns[i]
		if value := n.json(c); value != nil {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b = append(b, '"')
			b = append(b, c.Name...)
			b = append(b, '"', ':')
			b = append(b, value...)
		}
	}
	return append(b, '}'), nil
}

// json returns the value of a column in JSON; nil: no value.
func (n Named) json(c *Column) []byte {
	if c.Known != nil && !c.Known(n.Answer) {
		return nil
	}
	switch {
	case c.Type == ClassName:
		return quote(n.label(n.Class))
	case c.Type == Word:
		return quote(n.Answer.Flags.Integrity())
	case c.Type == Flags && n.Answer.Flags != 0:
		return quote(n.Answer.Flags.String())
	case c.Float != nil:
		return appendNumber(nil, *c.Float(n.Answer))
	case c.Floats != nil:
		return appendList(*c.Floats(n.Answer), func(b []byte, v float32) []byte { return appendNumber(b, v) })
	case c.Classes != nil:
		return appendList(*c.Classes(n.Answer), func(b []byte, class int32) []byte { return append(b, quote(n.label(class))...) })
	}
	return nil
}

// Text returns the value of a column in CSV; empty without a value, or if the column is no
// part of an answer.
func (n Named) Text(c *Column) string {
	switch {
	case c.Known != nil && !c.Known(n.Answer):
	case c.Type == ClassName:
		return n.label(n.Class)
	case c.Type == Word:
		return n.Answer.Flags.Integrity()
	case c.Type == Flags:
		return n.Answer.Flags.String()
	case c.Type == Scores:
		scores := make([]string, len(n.Scores))
		for i, v := range n.Scores {
			scores[i] = shortest(v)
		}
		return strings.Join(scores, " ")
	case c.Float != nil:
		return shortest(*c.Float(n.Answer))
	default:
		return string(n.json(c)) // a list: a name may hold any separator
	}
	return ""
}

// ClassNames returns the names of some classes.
func (n Named) ClassNames(classes []int32) []string {
	names := make([]string, len(classes))
	for i, class := range classes {
		names[i] = n.label(class)
	}
	return names
}

func (n Named) label(class int32) string {
	if class < 0 || int(class) >= len(n.Labels) {
		return "?"
	}
	return n.Labels[class]
}

// shortest returns the shortest text that parses to v.
func shortest(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // texts are always JSON
		panic(err)
	}
	return b
}

// appendNumber appends a number of JSON, within float32: the largest replaces infinity, and 0
// a value that is not a number.
func appendNumber(b []byte, v float32) []byte {
	if v != v {
		v = 0
	}
	v = min(max(v, -math.MaxFloat32), math.MaxFloat32)
	if size := max(v, -v); size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(b, float64(v), 'f', -1, 32)
	}
	b = strconv.AppendFloat(b, float64(v), 'e', -1, 32)
	if n := len(b); b[n-2] == '0' && b[n-3] == '-' { // e-07; encoding/json writes e-7
		b = append(b[:n-2], b[n-1])
	}
	return b
}

func appendList[T any](all []T, one func(b []byte, v T) []byte) []byte {
	b := []byte{'['}
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

// Join returns one JSON object from several values that are objects, in order.
func Join(objects ...any) ([]byte, error) {
	all := []byte{'{'}
	for _, o := range objects {
		b, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		if len(b) > 2 {
			if len(all) > 1 {
				all = append(all, ',')
			}
			all = append(all, b[1:len(b)-1]...)
		}
	}
	return append(all, '}'), nil
}
