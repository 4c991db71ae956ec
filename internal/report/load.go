package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/paper"
)

// Options add values that results files may lack.
type Options struct {
	Date    string // of the report; "": the latest day recorded in a file
	Machine string // "": the recorded machines
	Figures string // folder with the files of offline paper figures; "": none
}

// Report is the content of all results files.
type Report struct {
	options  Options
	sources  []source
	sections []*section // protocols, in the order of paper.Protocols, then paper.Compare
	memory   *section   // of the memorization tasks; nil if there are none
	figures  []picture
}

// source is one results file.
type source struct {
	Name, Hash string // of the file without its folder; SHA-256
	Settings   paper.Settings
	Origins    []paper.Origin
	Cells      int
	path       string
}

// section is the results of one protocol.
type section struct {
	paper.Settings
	Title      string
	Models     []string
	Datasets   []string
	Unfinished []paper.Unfinished
	Without    []string // models without a result, and the reason
	entries    map[[2]string]*entry
	from       string // the first file
}

// entry is one model on one data set.
type entry struct {
	paper.Cell
	Data    paper.Data
	Draws   []paper.Draw
	Verdict *paper.Verdict // nil if the paper has no figure
	section *section
	from    string
}

// memoryTitle is the title of the memorization tasks' section.
const memoryTitle = "memory"

// Load reads results files, and the figures named in Options.
func Load(paths []string, o Options) (*Report, error) {
	r := &Report{options: o}
	var files []*paper.Results
	for _, path := range paths {
		rs, s, err := loadFile(path)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(r.sources, func(have source) bool { return have.Hash == s.Hash }); i >= 0 {
			return nil, fmt.Errorf("report: %s and %s are the same", r.sources[i].path, path)
		}
		files, r.sources = append(files, rs), append(r.sources, s)
	}
	for i, rs := range files {
		if err := r.addResults(rs, r.sources[i].path); err != nil {
			return nil, err
		}
	}
	if err := r.checkData(); err != nil {
		return nil, err
	}
	r.sortAll()
	if len(r.allSections()) == 0 {
		return nil, errors.New("report: the files hold no results yet")
	}
	var err error
	r.figures, err = readFigures(o.Figures)
	return r, err
}

func loadFile(path string) (*paper.Results, source, error) {
	rs, err := paper.ReadResults(path)
	if err != nil {
		return nil, source{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, source{}, err
	}
	sum := sha256.Sum256(text)
	return rs, source{filepath.Base(path), hex.EncodeToString(sum[:]), rs.Settings(), rs.Origins(), len(rs.Cells()), path}, nil
}

// addResults adds the results of one file.
func (r *Report) addResults(rs *paper.Results, path string) error {
	findSection := func(dataset string) (*section, error) {
		s := r.sectionFor(rs.Settings(), dataset, path)
		settings := rs.Settings()
		settings.ListLength, settings.LeastRate = s.ListLength, s.LeastRate // may differ: a cell's command has the values
		if s.Settings != settings {
			return nil, otherSettings(s.Settings, s.from, rs.Settings(), path)
		}
		return s, nil
	}
	for _, c := range rs.Cells() {
		s, err := findSection(c.Dataset)
		if err != nil {
			return err
		}
		if c.Missing != "" {
			s.Without = append(s.Without, fmt.Sprintf("%s, %s: %s", c.Dataset, displayName(c.Model), c.Missing))
			continue
		}
		e := &entry{Cell: c, Data: rs.Data(c.Dataset), Draws: rs.DrawsOf(c), section: s, from: path}
		if v, ok := rs.Judge(c); ok {
			e.Verdict = &v
		}
		k := [2]string{c.Dataset, c.Model}
		if have := s.entries[k]; have != nil {
			return fmt.Errorf("report: %s, %s, %s is in %s and in %s: want it in only one", s.Title, c.Dataset, c.Model, have.from, path)
		}
		s.entries[k] = e
	}
	for _, u := range rs.Unfinished() {
		s, err := findSection(u.Dataset)
		if err != nil {
			return err
		}
		s.Unfinished = append(s.Unfinished, u)
	}
	return nil
}

// otherSettings reports two files of a protocol with different settings.
func otherSettings(a paper.Settings, from string, b paper.Settings, path string) error {
	return fmt.Errorf("report: %s has results of seed %d and arithmetic %d, %s of the same protocol %s of seed %d and arithmetic %d: want one of each in a report",
		from, a.Seed, a.Arithmetic, path, a.Protocol, b.Seed, b.Arithmetic)
}

// sectionFor returns the section of a data set's results.
func (r *Report) sectionFor(settings paper.Settings, dataset, path string) *section {
	made := &section{Settings: settings, Title: string(settings.Protocol), entries: map[[2]string]*entry{}, from: path}
	if _, _, ok := paper.MemoryTask(dataset); ok {
		if r.memory == nil {
			made.Title, r.memory = memoryTitle, made
		}
		return r.memory
	}
	for _, s := range r.sections {
		if s.Protocol == settings.Protocol {
			return s
		}
	}
	r.sections = append(r.sections, made)
	return made
}

// allSections returns the sections and the memorization tasks.
func (r *Report) allSections() []*section {
	if r.memory == nil {
		return r.sections
	}
	return append(slices.Clone(r.sections), r.memory)
}

// checkData requires a name to mean the same data in all files.
func (r *Report) checkData() error {
	type parts struct{ train, test, from string }
	known := map[string]parts{}
	compareData := func(d paper.Data, from string) error {
		have, ok := known[d.Dataset]
		if !ok {
			known[d.Dataset] = parts{d.Train, d.Test, from}
		} else if have.train != d.Train || have.test != d.Test {
			return fmt.Errorf("report: data set %q in %s differs from the data set in %s: their parts differ", d.Dataset, from, have.from)
		}
		return nil
	}
	for _, e := range r.entries() {
		if err := compareData(e.Data, e.from); err != nil {
			return err
		}
	}
	return nil
}

// sortAll makes the report independent of the order of files.
func (r *Report) sortAll() {
	slices.SortFunc(r.sources, func(a, b source) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Hash, b.Hash)) })
	slices.SortFunc(r.sections, func(a, b *section) int {
		all := append(slices.Clone(paper.Protocols), paper.Compare)
		return slices.Index(all, a.Protocol) - slices.Index(all, b.Protocol)
	})
	for _, s := range r.allSections() {
		for k := range s.entries {
			s.Datasets, s.Models = append(s.Datasets, k[0]), append(s.Models, k[1])
		}
		slices.SortFunc(s.Datasets, compareDatasets)
		slices.SortFunc(s.Models, paper.CompareModels)
		s.Datasets, s.Models = slices.Compact(s.Datasets), slices.Compact(s.Models)
		slices.Sort(s.Without)
		sortUnfinished(s.Unfinished)
	}
}

func sortUnfinished(list []paper.Unfinished) {
	slices.SortFunc(list, func(a, b paper.Unfinished) int {
		return cmp.Or(compareDatasets(a.Dataset, b.Dataset), paper.CompareModels(a.Model, b.Model))
	})
}

// compareDatasets orders by name, the lengths of a memorisation task by number.
func compareDatasets(a, b string) int {
	taskA, lengthA, okA := paper.MemoryTask(a)
	taskB, lengthB, okB := paper.MemoryTask(b)
	if okA && okB {
		return cmp.Or(cmp.Compare(taskA, taskB), cmp.Compare(lengthA, lengthB), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}

// list returns a section's entries in the order of its data sets and models.
func (s *section) list() []*entry {
	var all []*entry
	for _, d := range s.Datasets {
		for _, m := range s.Models {
			if e := s.entries[[2]string{d, m}]; e != nil {
				all = append(all, e)
			}
		}
	}
	return all
}

// entries returns the entries of all sections, in the order of sortAll.
func (r *Report) entries() []*entry {
	var all []*entry
	for _, s := range r.allSections() {
		if s.Datasets != nil {
			all = append(all, s.list()...)
			continue
		}
		for _, e := range s.entries {
			all = append(all, e)
		}
	}
	return all
}

func (r *Report) unfinished() (all []paper.Unfinished) {
	for _, s := range r.allSections() {
		all = append(all, s.Unfinished...)
	}
	return all
}
