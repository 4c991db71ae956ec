package figures

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// table is a CSV file under construction. Numbers are written with all significant
// digits, so that a reader gets the same float64.
type table struct{ buf bytes.Buffer }

func newTable(columns ...string) *table {
	t := &table{}
	for i, c := range columns {
		if i > 0 {
			t.buf.WriteByte(',')
		}
		t.buf.WriteString(c)
	}
	t.buf.WriteByte('\n')
	return t
}

// addRow accepts numbers, booleans and words without commas and quotes.
func (t *table) addRow(fields ...any) {
	for i, f := range fields {
		if i > 0 {
			t.buf.WriteByte(',')
		}
		if v, ok := f.(float64); ok {
			t.buf.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		} else {
			fmt.Fprint(&t.buf, f)
		}
	}
	t.buf.WriteByte('\n')
}

func (t *table) bytes() []byte { return t.buf.Bytes() }

// quote converts any text to one field.
func quote(s string) string {
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}
