package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/paper"
)

// File is one file of a report.
type File struct {
	Name string // with slashes, below the report's folder
	Data func() ([]byte, error)
}

// Files lists the report's files, the page last.
func (r *Report) Files() []File {
	files := []File{
		{"table.csv", func() ([]byte, error) { return r.csv(), nil }},
		{"results.jsonl", r.jsonl},
	}
	for _, s := range r.sections {
		for _, e := range s.list() {
			if !e.hasPredictions() {
				continue
			}
			for k := range e.Draws {
				files = append(files, File{e.tsmlName(k), func() ([]byte, error) { return e.tsml(k), nil }})
			}
		}
	}
	return append(files, File{"report.html", r.html})
}

// Summary is the summary of the report.
type Summary struct {
	Date       string             `json:"date,omitempty"`
	Protocols  []ProtocolSummary  `json:"protocols"`
	Compared   int                `json:"compared"`               // cells with a figure of the paper that is a yardstick
	Within     int                `json:"within"`                 // of these, cells within the tolerance
	ByOurs     []Outside          `json:"by_our_deviation_alone"` // of these, cells outside the tolerance of only the paper's figures
	Outside    []Outside          `json:"outside"`
	Unfinished []paper.Unfinished `json:"unfinished"`
	Missing    []string           `json:"missing"` // values missing in the files
	OnlyBanks  bool               `json:"-"`       // results of offline paper compare, without figures of the paper
}

// ProtocolSummary is a protocol, or the memorization tasks.
type ProtocolSummary struct {
	Section  string         `json:"section"`
	Settings paper.Settings `json:"settings"`
	Datasets []string       `json:"datasets"`
	Models   []string       `json:"models"`
	Cells    int            `json:"cells"` // results
}

// Outside is a cell outside the tolerance of the paper.
type Outside struct {
	Section   string  `json:"section"`
	Dataset   string  `json:"dataset"`
	Model     string  `json:"model"`
	Accuracy  float64 `json:"accuracy"`
	Paper     float64 `json:"paper"`
	Tolerance float64 `json:"tolerance"`
}

func (o Outside) String() string {
	return fmt.Sprintf("%s %s %s %.3f, paper %.3f, tolerance %.3f", o.Section, o.Dataset, o.Model, o.Accuracy, o.Paper, o.Tolerance)
}

func outsideOf(section string, e *entry, tolerance float64) Outside {
	return Outside{section, e.Dataset, e.Model, e.Accuracy, e.Verdict.Paper.Accuracy, tolerance}
}

// Summary summarizes the report.
func (r *Report) Summary() Summary {
	s := Summary{Date: r.date(), Outside: []Outside{}, ByOurs: []Outside{}, Unfinished: append([]paper.Unfinished{}, r.unfinished()...), Missing: append([]string{}, r.missing()...)}
	for _, of := range r.allSections() {
		entries := of.list()
		s.Protocols = append(s.Protocols, ProtocolSummary{of.Title, of.Settings, of.Datasets, of.Models, len(entries)})
		for _, e := range entries {
			switch e.verdict() {
			case byOurs:
				s.ByOurs = append(s.ByOurs, outsideOf(of.Title, e, e.Verdict.Fixed))
				s.Within++
			case within:
				s.Within++
			case above, below:
				s.Outside = append(s.Outside, outsideOf(of.Title, e, e.Verdict.Tolerance))
			}
		}
	}
	s.Compared = s.Within + len(s.Outside)
	s.OnlyBanks = !slices.ContainsFunc(s.Protocols, func(p ProtocolSummary) bool { return p.Settings.Protocol != paper.Compare })
	return s
}

// missing returns sentences about values missing in the input.
func (r *Report) missing() (all []string) {
	for _, s := range r.sources {
		if len(s.Origins) == 0 {
			all = append(all, fmt.Sprintf("%s does not name its machine, time and version", s.Name))
		}
	}
	for _, s := range r.sections {
		for _, d := range s.Datasets {
			var models []string
			for _, m := range s.Models {
				if e := s.entries[[2]string{d, m}]; e != nil && !e.hasPredictions() {
					models = append(models, displayName(m))
				}
			}
			if models != nil {
				all = append(all, fmt.Sprintf("%s, %s, %s: no predictions of the test series are stored, so there are no tsml files", s.Title, d, strings.Join(models, ", ")))
			}
		}
	}
	for _, s := range r.allSections() {
		for _, w := range s.Without {
			all = append(all, s.Title+", "+w)
		}
		for _, u := range s.Unfinished {
			command := "tables"
			switch {
			case s == r.memory:
				command = "memory"
			case s.Protocol == paper.Compare:
				command = "compare"
			}
			all = append(all, fmt.Sprintf("%s, %s, %s is not finished (%d trials, %d draws): offline paper %s --resume continues",
				s.Title, u.Dataset, displayName(u.Model), u.Trials, u.Draws, command))
		}
	}
	return all
}
