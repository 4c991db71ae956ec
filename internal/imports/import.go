package imports

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// DefaultNumWords is the vocabulary of the paper's text experiments.
const DefaultNumWords = 10000

// Options select the data set to import: a directory, or files.
type Options struct {
	// Dir is searched, two folders deep, for NAME_TRAIN.* and NAME_TEST.* (or for MNIST's
	// idx files, with the name of their folder).
	Dir string
	// Name selects a data set in Dir; Name may be empty if Dir holds a single data set.
	// With explicit files Name overrides the name in the files.
	Name string
	// Train and Test are explicit files, instead of Dir. Either may be empty. For idx
	// files they are the image files; each label file must be in the folder of its image
	// file.
	Train, Test string
	// NumWords limits the vocabulary of token lists: ids from NumWords on become 2,
	// "unknown", as in keras. 0 means DefaultNumWords, -1 keeps every id.
	NumWords int
	// MaxValues bounds the memory of the import; 0 means datafile.MaxValues.
	MaxValues int64
	// Tool, License and Note are stored in the provenance.
	Tool, License, Note string
}

// Import reads a benchmark data set from the files of its publisher. Classes are sorted:
// by value if all are numbers, else by their bytes. Series keep the order of the files
// and are named train-0, train-1, ..., test-0, ... A missing part, and other harmless
// irregularities, are reported in Source.Warnings; all other problems are errors with
// file and line. progress counts the bytes of each file.
func Import(ctx context.Context, opts Options, progress archive.Progress) (*archive.Dataset, error) {
	files, err := opts.findFiles()
	if err != nil {
		return nil, err
	}
	budget := cmp.Or(opts.MaxValues, datafile.MaxValues)
	d := &archive.Dataset{
		Name:   files.name,
		Source: archive.Provenance{Format: files.format.name, Tool: opts.Tool, License: opts.License, Note: opts.Note},
	}
	var parts [2]*part
	for i, path := range []string{files.train, files.test} {
		if path == "" {
			addWarning(d, "no %s part was found", splits[i])
			continue
		}
		p, err := files.format.readFile(ctx, opts, path, &budget, progress, d)
		if err != nil {
			return nil, err
		}
		parts[i] = p
	}
	if err := assemble(d, parts, opts.Name != "" || opts.Dir != ""); err != nil {
		return nil, err
	}
	if err := d.Validate(); err != nil {
		return nil, datafile.InContent(err)
	}
	for _, s := range splits {
		warnAbsent(d, s)
	}
	return d, nil
}

var splits = [2]archive.Split{archive.Train, archive.Test}

func addWarning(d *archive.Dataset, format string, args ...any) {
	d.Source.Warnings = append(d.Source.Warnings, fmt.Sprintf(format, args...))
}

// assemble joins the parts: one list of classes, series after series.
func assemble(d *archive.Dataset, parts [2]*part, keepName bool) error {
	train, test := parts[0], parts[1]
	if train != nil && test != nil {
		if train.channels != test.channels {
			return datafile.InContent(fmt.Errorf("offline: %s: the train part has %d channels, the test part %d: want equal numbers", d.Name, train.channels, test.channels))
		}
		compareClasses(d, train, test)
	}
	classes, index := names.JoinClasses(unionClasses(parts), func(format string, args ...any) { addWarning(d, format, args...) })
	d.Classes = classes
	for i, p := range parts {
		if p == nil {
			continue
		}
		if p.problem != "" && !keepName {
			d.Name = p.problem
		}
		d.Source.Warnings = append(d.Source.Warnings, p.warnings...)
		d.Channels = channelNames(p.channels)
		for n, s := range p.series {
			label := -1
			if p.labeled {
				label = index[s.label]
			}
			d.Series = append(d.Series, archive.Series{
				ID:     fmt.Sprintf("%s-%d", splits[i], n),
				Split:  splits[i],
				Label:  label,
				Values: s.values,
				Tokens: s.tokens,
			})
		}
	}
	return nil
}

// compareClasses warns of test series whose class has no training series, for any
// declaration in the headers: a readout cannot learn such a class.
func compareClasses(d *archive.Dataset, train, test *part) {
	inTrain, inTest := train.usedClasses(), test.usedClasses()
	var strange []string
	known := slices.Collect(maps.Keys(inTrain))
	for c := range inTest {
		if names.ClassIndex(known, c) < 0 {
			strange = append(strange, c)
		}
	}
	if len(strange) > 0 {
		sortClasses(strange)
		addWarning(d, "classes of test series without a training series: %s", clip([]byte(strings.Join(strange, ", "))))
	}
}

// classSet returns every class that a part declares or uses.
func (p *part) classSet() map[string]bool {
	set := p.usedClasses()
	for _, c := range p.classes {
		set[c] = true
	}
	return set
}

// usedClasses returns the classes of its series.
func (p *part) usedClasses() map[string]bool {
	set := make(map[string]bool)
	if p.labeled {
		for i := range p.series {
			set[p.series[i].label] = true
		}
	}
	return set
}

func unionClasses(parts [2]*part) []string {
	set := make(map[string]bool)
	for _, p := range parts {
		if p == nil {
			continue
		}
		for c := range p.classSet() {
			set[c] = true
		}
	}
	classes := make([]string, 0, len(set))
	for c := range set {
		classes = append(classes, c)
	}
	sortClasses(classes)
	return classes
}

// sortClasses orders by value if every class is a number, else by bytes.
func sortClasses(classes []string) {
	value := make(map[string]float64, len(classes))
	for _, c := range classes {
		v, err := strconv.ParseFloat(c, 64)
		if err != nil || math.IsNaN(v) {
			slices.Sort(classes)
			return
		}
		value[c] = v
	}
	slices.SortFunc(classes, func(a, b string) int {
		return cmp.Or(cmp.Compare(value[a], value[b]), strings.Compare(a, b))
	})
}

// readFile reads a file of the format and adds its provenance to d.
func (f *format) readFile(ctx context.Context, opts Options, path string, budget *int64, progress archive.Progress, d *archive.Dataset) (*part, error) {
	src, err := openSource(ctx, path, budget, progress)
	if err != nil {
		return nil, err
	}
	defer src.close()
	p, err := f.read(src, opts)
	if err != nil {
		return nil, err
	}
	if err := noteFile(d, src); err != nil {
		return nil, err
	}
	if f.labels == nil {
		return p, nil
	}
	labels, err := openSource(ctx, f.labelPath(path), budget, progress)
	if err != nil {
		return nil, fmt.Errorf("%w (the labels of %s)", err, path)
	}
	defer labels.close()
	if err := f.labels(labels, p); err != nil {
		return nil, err
	}
	return p, noteFile(d, labels)
}

func noteFile(d *archive.Dataset, src *source) error {
	file, err := src.provenance()
	if err == nil {
		d.Source.Files = append(d.Source.Files, file)
	}
	return err
}
