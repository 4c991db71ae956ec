package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
)

// table is the published table of simulated faults, by the name of the fault.
type table map[string]row

// row is the last result of a fault.
type row struct {
	found, histories, cpu string
	failure               string // first failure; if not found, see notes
	version               string
}

var tableHead = []string{"fault", "found", "histories", "CPU seconds", "first failure, or reason", "commit"}

// readTable reads the table; a file that does not exist has no rows.
func readTable(path string) (table, error) {
	t := table{}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) == 0 || len(rows[0]) != len(tableHead) {
		return nil, fmt.Errorf("%s: want a CSV table with %d columns: %w", path, len(tableHead), err)
	}
	for _, r := range rows[1:] {
		t[r[0]] = row{r[1], r[2], r[3], r[4], r[5]}
	}
	return t, nil
}

// setRow replaces the row of a fault.
func (t table) setRow(h history, version string) {
	found := "no"
	if h.Found {
		found = "yes"
	}
	t[h.Fault] = row{found, strconv.Itoa(h.Histories), strconv.FormatFloat(math.Ceil(h.CPU), 'f', 0, 64), h.Failure, version}
}

// writeTable writes the rows of the listed faults, in their order.
func (t table) writeTable(path string, all []planted) error {
	rows := [][]string{tableHead}
	for _, p := range all {
		if r, ok := t[p.name]; ok {
			if r.found == "no" {
				r.failure = cmp.Or(notes[p.name], "not explained")
			}
			rows = append(rows, []string{p.name, r.found, r.histories, r.cpu, r.failure, r.version})
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(file).WriteAll(rows), file.Close())
}
