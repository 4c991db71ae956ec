package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// printTotals reads the output files of previous runs, sums the reports in these files, and
// prints CSV: the kind of the count, the name, the second name of a pair, and the count.
func printTotals(out io.Writer, paths []string) error {
	total := newSummary(io.Discard)
	for _, path := range paths {
		s, err := readReport(path)
		if err != nil {
			return err
		}
		total.addReport(s)
	}
	w := csv.NewWriter(out)
	w.Write([]string{"what", "name", "other", "count"})
	for _, n := range []struct {
		what  string
		count int
	}{
		{"histories", total.Histories}, {"histories that failed", len(total.Failed)}, {"predictions compared", total.Predictions},
		{"states compared", total.States}, {"virtual hours", int(total.Virtual / 3600)},
	} {
		w.Write([]string{n.what, "", "", strconv.Itoa(n.count)})
	}
	for _, part := range []struct {
		what   string
		counts map[string]int
	}{{"fault", total.Faults}, {"histories with a pair of faults", total.Pairs}, {"state reached", total.Seen}} {
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			first, other, _ := strings.Cut(name, " + ")
			w.Write([]string{part.what, first, other, strconv.Itoa(part.counts[name])})
		}
	}
	w.Flush()
	return w.Error()
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
