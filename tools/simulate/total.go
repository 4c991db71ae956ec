package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// totalsHeader are the columns of printTotals.
var totalsHeader = []string{"what", "name", "other", "count"}

// printTotals reads the output files of previous runs, and CSV of printTotals, sums the counts in
// these files, and prints CSV: the kind of the count, the name, the second name of a pair, and the
// count.
func printTotals(out io.Writer, paths []string) error {
	total := newSummary(io.Discard)
	for _, path := range paths {
		read := readReport
		if filepath.Ext(path) == ".csv" {
			read = readTotals
		}
		s, err := read(path)
		if err != nil {
			return err
		}
		total.addReport(s)
	}
	w := csv.NewWriter(out)
	w.Write(totalsHeader)
	for _, n := range []struct {
		what  string
		count int
	}{
		{"histories", total.Histories}, {"histories that failed", len(total.Failed)}, {"predictions compared", total.Predictions},
		{"states compared", total.States}, {"virtual hours", int(total.Virtual / 3600)},
	} {
		w.Write([]string{n.what, "", "", strconv.Itoa(n.count)})
	}
	for _, part := range total.countsByName() {
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			first, other, _ := strings.Cut(name, " + ")
			w.Write([]string{part.what, first, other, strconv.Itoa(part.counts[name])})
		}
	}
	w.Flush()
	return w.Error()
}

// namedCounts are the counts of one kind, by name; of pairs, the names are joined by " + ".
type namedCounts struct {
	what   string
	counts map[string]int
}

func (s *summary) countsByName() []namedCounts {
	return []namedCounts{{"fault", s.Faults}, {"histories with a pair of faults", s.Pairs}, {"state reached", s.Seen}}
}

// readTotals reads CSV of printTotals. Of the failed histories only the number is known.
func readTotals(path string) (*summary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := newSummary(io.Discard)
	for i, row := range rows {
		if i == 0 && slices.Equal(row, totalsHeader) {
			continue // csv.Reader requires as many fields in each row
		}
		if i == 0 {
			return nil, fmt.Errorf("%s: the columns %q, want %q", path, row, totalsHeader)
		}
		n, err := strconv.ParseUint(row[3], 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%s, row %d: %w", path, i+1, err)
		}
		if err := s.addCount(row[0], row[1], row[2], int(n)); err != nil {
			return nil, fmt.Errorf("%s, row %d: %w", path, i+1, err)
		}
	}
	return s, nil
}

// addCount adds a row of printTotals.
func (s *summary) addCount(what, name, other string, n int) error {
	switch what {
	case "histories":
		s.Histories += n
	case "histories that failed":
		s.Failed = append(s.Failed, make([]uint64, n)...)
	case "predictions compared":
		s.Predictions += n
	case "states compared":
		s.States += n
	case "virtual hours":
		s.Virtual += float64(n) * 3600
	default:
		if other != "" {
			name += " + " + other
		}
		for _, part := range s.countsByName() {
			if part.what == what {
				part.counts[name] += n
				return nil
			}
		}
		return fmt.Errorf("the count %q is not known", what)
	}
	return nil
}

// readReport reads the report at the end of a run's output.
func readReport(path string) (*summary, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	begin := bytes.LastIndex(append([]byte("\n"), text...), []byte("\n{\n"))
	if begin < 0 {
		return nil, fmt.Errorf("%s has no report: the run did not end, or this is not its output", path)
	}
	s := newSummary(io.Discard)
	if err := json.NewDecoder(bytes.NewReader(text[begin:])).Decode(s); err != nil {
		return nil, fmt.Errorf("%s: the report: %w", path, err)
	}
	return s, nil
}

// addReport adds the counts of another summary, except of exits.
func (s *summary) addReport(r *summary) {
	s.Histories += r.Histories
	s.Failed = append(s.Failed, r.Failed...)
	s.Predictions += r.Predictions
	s.States += r.States
	s.Virtual += r.Virtual
	for _, m := range [][2]map[string]int{{s.Faults, r.Faults}, {s.Pairs, r.Pairs}, {s.Seen, r.Seen}} {
		for name, n := range m[1] {
			m[0][name] += n
		}
	}
}
