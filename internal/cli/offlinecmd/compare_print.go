package offlinecmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/compare"
	"github.com/eusn-stream/eusn-stream/internal/paper"
)

// CompareReport is the output of offline paper compare --json.
type CompareReport struct {
	Results     string                        `json:"results"`
	Settings    paper.Settings                `json:"settings"`
	Cells       []paper.Cell                  `json:"cells"`
	Published   map[string]map[string]float64 `json:"published"` // accuracy by data set and classifier
	Sources     []compare.Source              `json:"published_sources"`
	Rankings    []*compare.Ranking            `json:"rankings"`
	Differences []compare.Difference          `json:"differences"` // of the banks, over the data sets of the first ranking
	Means       []BankMean                    `json:"means"`       // of each bank, for each ranking
	Unmeasured  []string                      `json:"unmeasured,omitempty"`
}

// BankMean is a bank's mean accuracy over the data sets of a ranking.
type BankMean struct {
	Bank      string    `json:"bank"`
	Datasets  int       `json:"datasets"`
	Draws     []float64 `json:"draws"` // one mean for each drawing of the weights
	Mean      float64   `json:"mean"`
	Deviation float64   `json:"deviation"`      // population standard deviation over the draws
	Want      float64   `json:"want,omitempty"` // the promised minimum, if all data sets with published figures are present
}

// print shows the results of the run.
func (c *compareRun) print(a *cli.App, done benchDone) error {
	r := c.report(done)
	var err error
	if a.JSON {
		err = a.PrintJSON(r)
	} else {
		err = r.writeReport(a.Stdout)
		for _, why := range done.unmeasured {
			a.Say("%s", why)
		}
		a.Say("results in %s", c.run.out)
		a.Say("next: eusn-stream offline paper report %s", cli.QuoteForShell(c.run.out))
	}
	if err == nil && c.run.gate {
		err = r.gate()
	}
	return err
}

// report compares cells with published results.
func (c *compareRun) report(done benchDone) CompareReport {
	r := CompareReport{
		Results: c.run.out, Settings: c.run.settings, Cells: done.cells, Published: map[string]map[string]float64{}, Sources: compare.Sources(),
		Rankings: []*compare.Ranking{}, Differences: []compare.Difference{}, Means: []BankMean{}, Unmeasured: done.unmeasured,
	}
	for _, d := range r.datasets() {
		r.Published[d] = map[string]float64{}
		for _, name := range compare.Classifiers {
			if v, ok := compare.Published(name).Accuracy(d); ok {
				r.Published[d][name] = v
			}
		}
	}
	var banks []compare.Method
	for _, name := range r.banks() {
		banks = append(banks, compare.Method{Name: name, Accuracy: func(dataset string) (float64, bool) {
			cell := r.cell(dataset, name)
			return cell.Accuracy, true
		}})
	}
	r.Rankings = append(r.Rankings, compare.RankWithPublished(r.datasets(), banks)...)
	for _, k := range r.Rankings {
		for _, b := range banks {
			r.Means = append(r.Means, r.mean(done.store, b.Name, k.Datasets))
		}
	}
	if len(r.Rankings) > 0 {
		r.Differences = append(r.Differences, r.Rankings[0].Differences(len(banks))...)
	}
	return r
}

func (r *CompareReport) mean(st *paper.Store, bank string, datasets []string) BankMean {
	var cells []paper.Cell
	for _, d := range datasets {
		cells = append(cells, r.cell(d, bank))
	}
	m := BankMean{Bank: bank, Datasets: len(datasets), Draws: st.DrawMeans(cells)}
	m.Mean, m.Deviation = paper.MeanDeviation(m.Draws)
	if want, ok := compare.Promised(bank); ok && len(datasets) == len(compare.Sets()) {
		m.Want = want
	}
	return m
}

// datasets and banks are in the order of the cells, each once.
func (r *CompareReport) datasets() []string {
	return r.each(func(c paper.Cell) string { return c.Dataset })
}

func (r *CompareReport) banks() []string {
	return r.each(func(c paper.Cell) string { return c.Model })
}

func (r *CompareReport) each(of func(paper.Cell) string) (all []string) {
	for _, c := range r.Cells {
		if !slices.Contains(all, of(c)) {
			all = append(all, of(c))
		}
	}
	return all
}

// cell returns the cell of a data set and bank, which always exists.
func (r *CompareReport) cell(dataset, bank string) paper.Cell {
	return r.Cells[slices.IndexFunc(r.Cells, func(c paper.Cell) bool { return c.Dataset == dataset && c.Model == bank })]
}

// gate is the error of banks below the promised accuracy.
func (r *CompareReport) gate() error {
	var below []string
	for _, m := range r.Means {
		if m.Mean < m.Want {
			below = append(below, fmt.Sprintf("%s %.4f, want %.4f", m.Bank, m.Mean, m.Want))
		}
	}
	if below == nil {
		return nil
	}
	return cli.Fail(cli.ExitTolerance, fmt.Errorf("mean accuracy over %d data sets below what is promised: %s", len(compare.Sets()), strings.Join(below, "; ")), "")
}

// writeReport shows the table, for people.
func (r *CompareReport) writeReport(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(slices.Concat([]string{"data set"}, r.banks(), compare.Classifiers), "\t"))
	for _, d := range r.datasets() {
		row := []string{d}
		for _, b := range r.banks() {
			c := r.cell(d, b)
			row = append(row, paper.Spread(c.Accuracy, c.Deviation, c.Draws, 3))
		}
		for _, name := range compare.Classifiers {
			if v, ok := r.Published[d][name]; ok {
				row = append(row, fmt.Sprintf("%.3f", v))
			} else {
				row = append(row, "-")
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	for _, k := range r.Rankings {
		r.addRow(t, k, fmt.Sprintf("mean of %d", len(k.Datasets)), func(i int) string {
			for _, m := range r.Means {
				if m.Bank == k.Methods[i] && m.Datasets == len(k.Datasets) {
					return paper.Spread(m.Mean, m.Deviation, len(m.Draws), 4)
				}
			}
			return fmt.Sprintf("%.4f", k.Means[i])
		})
		r.addRow(t, k, fmt.Sprintf("rank over %d", len(k.Datasets)), func(i int) string { return fmt.Sprintf("%.2f", k.Ranks[i]) })
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.writeTests(w)
}

// addRow shows a number for each method of a ranking.
func (r *CompareReport) addRow(t io.Writer, k *compare.Ranking, title string, number func(method int) string) {
	row := []string{title}
	for _, name := range slices.Concat(r.banks(), compare.Classifiers) {
		if i := slices.Index(k.Methods, name); i >= 0 {
			row = append(row, number(i))
		} else {
			row = append(row, "-")
		}
	}
	fmt.Fprintln(t, strings.Join(row, "\t"))
}

// writeTests reports the differences that exceed chance.
func (r *CompareReport) writeTests(w io.Writer) (err error) {
	say := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for _, k := range r.Rankings {
		if k.CD > 0 {
			say("%d data sets, %d methods: average ranks differ from %.2f on (Nemenyi's critical difference at .05; Friedman's p = %.2g)", len(k.Datasets), len(k.Methods), k.CD, k.P)
		}
	}
	if len(r.Rankings) > 0 && len(r.Rankings[0].Missing) > 0 {
		say("not in means and ranks: %s", strings.Join(r.Rankings[0].Missing, ", "))
	}
	for _, d := range r.Differences {
		say("%s against %s: mean difference %s", d.Method, d.Against, d)
	}
	return err
}
