package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/compare"
	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/internal/figures"
	"github.com/eusn-stream/eusn-stream/internal/paper"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"px": func(v float64) string { return fmt.Sprintf("%.1f", v) },
}).Parse(pageText))

// page is the input of the template.
type page struct {
	Style       template.CSS
	Date        string
	Machines    []string
	Programs    []string
	Sources     []source
	Counts      Summary
	Sections    []sectionView
	Across      *compare.Ranking
	AcrossChart *diagram
	Scatters    []*scatter
	Memory      *memoryView
	Figures     []figureView
	Cells       []*cellView // all, including the memorization tasks
	Missing     []string
}

// sectionView is one protocol.
type sectionView struct {
	Title       string
	Note        string
	Seed        uint64
	Models      []string
	Published   []string // other classifiers, only with banks
	Sources     []compare.Source
	Rows        []rowView
	Searched    bool
	Measured    bool // some cell has an energy
	Comparisons []comparisonView
	Unfinished  []paper.Unfinished
	Without     []string
}

type comparisonView struct {
	Ranking     *compare.Ranking
	Chart       *diagram
	Differences []compare.Difference // of banks from published figures
}

// rowView is a data set.
type rowView struct {
	Dataset   string
	Cells     []*cellView // nil for a missing model
	Published []string
}

// cellView is an entry as text.
type cellView struct {
	ID, Section, Dataset, Model           string
	Accuracy, Paper, Difference           string
	Class, Sign, Verdict                  string
	Units, PaperUnits, Parameters         string
	Seconds, Search                       string
	PaperSeconds, PaperSearch             string
	Energy, SearchEnergy                  string
	Validation, Config, Seeds, Accuracies string
	Command                               []string // words, which must not be broken at their hyphens
}

type memoryView struct {
	Picture template.HTML
	Failed  string // reason for a missing picture
	Models  []string
	Rows    []memoryRow
	Seed    uint64
}

type memoryRow struct {
	Task   string
	Length int
	Cells  []*cellView
}

type figureView struct {
	Title string
	Data  template.URL
}

// html returns the page.
func (r *Report) html() ([]byte, error) {
	p := page{Style: template.CSS(styleText), Date: r.date(), Sources: r.sources, Counts: r.Summary()}
	p.Machines, p.Programs = r.origins()
	views := map[*entry]*cellView{}
	for i, e := range r.entries() {
		v := e.view()
		v.ID = fmt.Sprintf("cell-%d", i+1)
		views[e], p.Cells = v, append(p.Cells, v)
	}
	for _, s := range r.sections {
		p.Sections = append(p.Sections, s.view(views))
	}
	if p.Across = r.acrossProtocols(); p.Across != nil {
		p.AcrossChart = diagramOf(p.Across)
	}
	p.Scatters = r.scatters()
	if r.memory != nil {
		p.Memory = r.memory.memoryView(views)
	}
	for _, f := range r.figures {
		p.Figures = append(p.Figures, figureView{f.Title, template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(f.Data))})
	}
	p.Missing = r.missing()
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, p)
	return b.Bytes(), err
}

// date returns the day of the report.
func (r *Report) date() string {
	if r.options.Date != "" {
		return r.options.Date
	}
	latest := ""
	for _, s := range r.sources {
		for _, o := range s.Origins {
			latest = max(latest, o.Began)
		}
	}
	day, _, _ := strings.Cut(latest, "T")
	return day
}

// origins returns the recorded machines and programs, each once.
func (r *Report) origins() (machines, programs []string) {
	for _, s := range r.sources {
		for _, o := range s.Origins {
			machines, programs = append(machines, o.Machine), append(programs, o.Program)
		}
	}
	if r.options.Machine != "" {
		machines = []string{r.options.Machine}
	}
	slices.Sort(machines)
	slices.Sort(programs)
	return slices.Compact(machines), slices.Compact(programs)
}

// notes describe the protocols.
var notes = map[paper.Protocol]string{
	paper.PaperExact: "The published experiments rerun: the training part split 67/33 again as they split it, their lists of configurations, alpha 1, zeros in front of short series, the first of the best on the validation part drawn again and fitted to the 67 %. The test part is looked at once, by the draws.",
	paper.Best:       "The same search, but every series as long as it is, features divided by their deviation, alpha by exact leave-one-out, draws fitted to the whole training part. Being better than the paper is within the tolerance.",
	paper.Bank:       "One bank of small Euler State Networks, nothing searched: one pass over the training part; alpha and the kind of readout, ridge classifier or linear discriminant, by exact leave-one-out there. The paper's figure is that of its searched EuSN; being better is within the tolerance. 1NN-DTW, ROCKET and HIVE-COTE 2 are published figures for the archives' default splits, for orientation.",
	paper.Compare:    "Banks by their names, nothing searched: one pass over the training part; alpha and the kind of readout by exact leave-one-out there. The other classifiers' figures are published ones, on the split that the archive gives; a dash is a figure that was not found. Data sets without published figures count in no mean and no rank.",
}

func (s *section) view(views map[*entry]*cellView) sectionView {
	v := sectionView{Title: s.Title, Note: notes[s.Protocol], Seed: s.Seed, Unfinished: s.Unfinished, Without: s.Without, Searched: s.Protocol != paper.Bank && s.Protocol != paper.Compare}
	for _, m := range s.Models {
		v.Models = append(v.Models, displayName(m))
	}
	switch s.Protocol {
	case paper.Bank:
		v.Published = paper.Classifiers
	case paper.Compare:
		v.Published, v.Sources = compare.Classifiers, compare.Sources()
	}
	for _, d := range s.Datasets {
		row := rowView{Dataset: d}
		for _, m := range s.Models {
			e := s.entries[[2]string{d, m}]
			row.Cells = append(row.Cells, views[e])
			v.Measured = v.Measured || e != nil && (e.Energy != energy.Used{} || e.SearchEnergy != energy.Used{})
		}
		for _, name := range v.Published {
			row.Published = append(row.Published, share(compare.Published(name).Accuracy(d)))
		}
		v.Rows = append(v.Rows, row)
	}
	for _, c := range s.comparisons() {
		view := comparisonView{Ranking: c, Chart: diagramOf(c)}
		if s.Protocol == paper.Compare {
			view.Differences = c.Differences(len(s.Models))
		}
		v.Comparisons = append(v.Comparisons, view)
	}
	return v
}

// scatters compare the bank with published figures.
func (r *Report) scatters() (all []*scatter) {
	for _, s := range r.sections {
		if s.Protocol != paper.Bank {
			continue
		}
		others := []compare.Method{{Name: "paper's EuSN", Accuracy: paperScore}}
		for _, name := range paper.Classifiers {
			others = append(others, compare.Published(name))
		}
		for _, o := range others {
			if p := scatterPlot(s.Datasets, o, s.methodOf(paper.BankModel, "bank")); p != nil {
				all = append(all, p)
			}
		}
	}
	return all
}

func (s *section) memoryView(views map[*entry]*cellView) *memoryView {
	v := &memoryView{Seed: s.Seed}
	for _, m := range s.Models {
		v.Models = append(v.Models, displayName(m))
	}
	var points []figures.MemoryPoint
	for _, d := range s.Datasets {
		row := memoryRow{}
		row.Task, row.Length, _ = paper.MemoryTask(d)
		for _, m := range s.Models {
			e := s.entries[[2]string{d, m}]
			row.Cells = append(row.Cells, views[e])
			if e != nil {
				points = append(points, figures.MemoryPoint{Task: row.Task, Model: m, Length: row.Length, Accuracy: e.Accuracy, Deviation: e.Deviation})
			}
		}
		v.Rows = append(v.Rows, row)
	}
	f, err := figures.NewMemory(points)
	if err == nil {
		v.Picture, err = inline(f.Picture())
	}
	if err != nil {
		v.Failed = err.Error()
	}
	return v
}

// inline returns a picture as part of a page. Its texts are escaped when drawn; a test
// checks this.
func inline(p figures.Picture) (template.HTML, error) {
	svg, err := p.SVG()
	if err != nil {
		return "", err
	}
	at := bytes.Index(svg, []byte("<svg"))
	if at < 0 {
		return "", fmt.Errorf("report: a picture without an svg element")
	}
	return template.HTML(svg[at:]), nil
}

// picture is an image file of offline paper figures.
type picture struct {
	Title string
	Data  []byte
}

// readFigures reads Fig. 1 to 3. At least one file must exist.
func readFigures(dir string) ([]picture, error) {
	if dir == "" {
		return nil, nil
	}
	var all []picture
	for _, f := range []struct{ file, title string }{
		{"fig1-phase-portraits.png", "Fig. 1: phase portraits"},
		{"fig2-spectral-radius.png", "Fig. 2: effective spectral radius"},
		{"fig3-lyapunov.png", "Fig. 3: maximum local Lyapunov exponent"},
	} {
		data, err := os.ReadFile(filepath.Join(dir, f.file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if !bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) {
			return nil, fmt.Errorf("report: %s is no PNG file", filepath.Join(dir, f.file))
		}
		all = append(all, picture{f.title, data})
	}
	if all == nil {
		return nil, fmt.Errorf("report: %s holds none of the files of offline paper figures (fig1-phase-portraits.png, ...)", dir)
	}
	return all, nil
}
