package figures

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
)

// table is a CSV file under construction. Numbers are written with all significant
// digits, so that a reader gets the same float64.
type table struct {
	buf bytes.Buffer
	csv *csv.Writer
}

func newTable(columns ...string) *table {
	t := &table{}
	t.csv = csv.NewWriter(&t.buf)
	t.csv.Write(columns) // a buffer accepts all bytes
	return t
}

func (t *table) addRow(fields ...any) {
	row := make([]string, len(fields))
	for i, f := range fields {
		if v, ok := f.(float64); ok {
			row[i] = strconv.FormatFloat(v, 'g', -1, 64)
		} else {
			row[i] = fmt.Sprint(f)
		}
	}
	t.csv.Write(row)
}

func (t *table) bytes() []byte {
	t.csv.Flush()
	return t.buf.Bytes()
}
