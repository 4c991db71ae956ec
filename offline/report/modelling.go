package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/offline/bench"
)

// modelling is the results of offline modelling. The paper has no figure for them.
type modelling struct {
	bench.Settings
	Results    []*modelled
	Unfinished []bench.Unfinished
	from       string // the first file; empty: there is none
}

// there reports whether any file is of offline modelling.
func (m *modelling) there() bool { return m.from != "" }

// modelled is one model, with the input to its readout or without, on one data set.
type modelled struct {
	bench.Modelled
	data  bench.Data
	draws []bench.Draw
	from  string
}

// addModelling takes in one file of offline modelling.
func (r *Report) addModelling(rs *bench.Results, path string) error {
	m := &r.modelling
	if !m.there() {
		m.Settings, m.from = rs.Settings(), path
	}
	if m.Settings != rs.Settings() {
		return otherSettings(m.Settings, m.from, rs.Settings(), path)
	}
	for _, one := range rs.Modelled() {
		for _, have := range m.Results {
			if have.Dataset == one.Dataset && have.Model == one.Model && have.Input == one.Input {
				return fmt.Errorf("report: %s, %s, %s is in %s and in %s: want it in one", m.Protocol, one.Dataset, one.Model, have.from, path)
			}
		}
		m.Results = append(m.Results, &modelled{one, rs.Data(one.Dataset), rs.DrawsOfModelled(one), path})
	}
	m.Unfinished = append(m.Unfinished, rs.Unfinished()...)
	return nil
}

// order makes the section independent of the order of files.
func (m *modelling) order() {
	slices.SortFunc(m.Results, func(a, b *modelled) int {
		without := func(m *modelled) int {
			if m.Input {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), bench.CompareModels(a.Model, b.Model), cmp.Compare(without(a), without(b)))
	})
	sortUnfinished(m.Unfinished)
}

// summary counts.
func (m *modelling) summary() ProtocolSummary {
	s := ProtocolSummary{Section: string(m.Protocol), Settings: m.Settings, Cells: len(m.Results)}
	for _, one := range m.Results {
		s.Datasets, s.Models = append(s.Datasets, one.Dataset), append(s.Models, one.Model)
	}
	slices.SortFunc(s.Models, bench.CompareModels)
	s.Datasets, s.Models = slices.Compact(s.Datasets), slices.Compact(s.Models)
	return s
}

// csv gives modelling.csv.
func (m *modelling) csv() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{ // to memory: cannot fail
		"dataset", "model", "input_to_readout", "rmse", "deviation", "draws", "repeating", "units",
		"seconds", "search_seconds", "configurations", "selected", "validation_rmse", "seed", "command",
	})
	for _, one := range m.Results {
		_ = w.Write([]string{
			one.Dataset, one.Model, strconv.FormatBool(one.Input), number(one.RMSE), number(one.Deviation), strconv.Itoa(one.Draws), number(one.Repeating),
			strconv.Itoa(one.Config.Units), number(one.Seconds), number(one.Searched), strconv.Itoa(one.Configurations), strconv.Itoa(one.Selected),
			number(one.Validation), strconv.FormatUint(m.Seed, 10), one.Command,
		})
	}
	w.Flush()
	return b.Bytes()
}

// modelledLine is an object of results.jsonl.
type modelledLine struct {
	Section  string         `json:"section"`
	Settings bench.Settings `json:"settings"`
	Data     bench.Data     `json:"data"`
	Modelled bench.Modelled `json:"modelled"`
	Draws    []bench.Draw   `json:"draws"`
}

func (m *modelling) jsonl(enc *json.Encoder) error {
	for _, one := range m.Results {
		if err := enc.Encode(modelledLine{string(m.Protocol), m.Settings, one.data, one.Modelled, one.draws}); err != nil {
			return fmt.Errorf("report: %s, %s: %w", one.Dataset, one.Model, err)
		}
	}
	return nil
}

// modellingView is the section in words.
type modellingView struct {
	Seed       uint64
	Rows       []modelledView
	Unfinished []bench.Unfinished
}

type modelledView struct {
	Dataset            string // empty where it is that of the row above
	Model, Input       string
	RMSE, Repeating    string
	Validation, Config string
	Seeds, Seconds     string
	Search             string
	Command            []string // words, which are not to be broken at their hyphens
}

func (m *modelling) view() *modellingView {
	v := &modellingView{Seed: m.Seed, Unfinished: m.Unfinished}
	last := ""
	for i, one := range m.Results {
		e := entry{Cell: bench.Cell{Selected: one.Selected, Configurations: one.Configurations, Config: one.Config}, Draws: one.draws}
		row := modelledView{
			Model: displayName(one.Model), Input: "no", RMSE: bench.Spread(one.RMSE, one.Deviation, one.Draws, 5), Repeating: fmt.Sprintf("%.5f", one.Repeating),
			Validation: fmt.Sprintf("%.5f", one.Validation), Config: e.config(), Seeds: e.seeds(),
			Seconds: seconds(one.Seconds), Search: seconds(one.Searched),
		}
		if one.Input {
			row.Input = "yes"
		}
		if i == 0 || one.Dataset != last {
			row.Dataset, last = one.Dataset, one.Dataset
		}
		if one.Command != "" {
			row.Command = strings.Split(one.Command, " ")
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}
