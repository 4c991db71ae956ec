package imports

import (
	"fmt"
	"io"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// runKinds are the kinds of columns in the table of runs.
var runKinds = []string{kindLabel, kindGroup, kindTarget}

// runTable has a row for each stream.
type runTable struct {
	name         string
	rows         int
	label, group []string  // nil: no such column
	number       []float64 // nil: no such column
}

// mostRuns bounds the memory of a runTable.
const mostRuns = 1 << 22

// readRuns reads the table of runs.
func (s *tableSet) readRuns() (*runTable, error) {
	own := newTableSet(s.ctx, Table{}, nil, s.progress)
	rows, err := own.openTable(s.t.Runs)
	if err != nil {
		return nil, err
	}
	defer rows.close()
	header, err := own.t.columnNames(rows)
	if err != nil {
		return nil, err
	}
	at := s.t.runColumns(header)
	if at == [3]int{-1, -1, -1} {
		return nil, rows.errorf("no column is the label, the group or the target; the columns are %s", clip(fmt.Appendf(nil, "%q", header)))
	}
	d, _ := rows.form()
	r := &runTable{name: s.t.Runs}
	for {
		row, err := rows.readRow()
		if err == io.EOF {
			file, err := rows.finishRead()
			s.sources = append(s.sources, file)
			return r, err
		}
		if err == nil && r.rows == mostRuns {
			err = rows.errorf("more than %d rows", mostRuns)
		}
		if err == nil {
			err = r.addRow(row, at, d.decimal)
		}
		if err != nil {
			return nil, rows.errorf("%w", err)
		}
	}
}

// runColumns finds the columns of runKinds in the header of the table of runs; -1: none.
func (t *Table) runColumns(header []string) (at [3]int) {
	find := func(name string) int {
		if name == "" {
			return -1
		}
		return slices.Index(header, name)
	}
	for i, kind := range runKinds {
		at[i] = find(t.column(kind))
	}
	if !t.counts() {
		return at
	}
	if at[2] = max(find(Remaining), find("rul")); at[2] < 0 && len(header) == 1 {
		at[2] = 0
	}
	return at
}

// addRow adds a row with the columns of runKinds.
func (r *runTable) addRow(row [][]byte, at [3]int, decimal byte) error {
	r.rows++
	if i := at[0]; i >= 0 {
		r.label = append(r.label, string(trimField(row[i])))
	}
	if i := at[1]; i >= 0 {
		r.group = append(r.group, string(trimField(row[i])))
	}
	if i := at[2]; i >= 0 {
		v, ok := parseNumber(trimField(row[i]), decimal)
		if !ok && !isMissing(trimField(row[i])) {
			return fmt.Errorf("column %d: want a number, got %q", i+1, clip(row[i]))
		}
		if !ok {
			v = nan
		}
		r.number = append(r.number, v)
	}
	return nil
}

// complete adds what the table of runs has about stream number at.
func (r *runTable) complete(p *sample, at int) error {
	if r == nil {
		return nil
	}
	if at >= r.rows {
		return datafile.InContent(fmt.Errorf("%s has %d rows, want one for each stream: stream %q is number %d", r.name, r.rows, names.Cut(p.stream, 40), at+1))
	}
	if r.label != nil {
		p.label = r.label[at]
	}
	if r.group != nil {
		p.group = r.group[at]
	}
	if r.number != nil {
		p.number = r.number[at]
	}
	return nil
}
