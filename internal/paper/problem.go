package paper

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// problem is a data set prepared for the reservoirs of the paper: all its labeled series
// in one slice, training part first, and the lists of series in each part.
type problem struct {
	name     string
	channels int
	inputs   []float32 // rows x channels
	from, to []int     // rows of each series
	first    []float32 // the sample repeated by shared prefixes
	lead     []int     // number of repetitions at the beginning of each series
	label    []int     // index into classes; -1: a class without a training series
	classes  []string  // classes with a training series, in the data set's order

	train, test     []int // all series of a part
	fit, validation []int // the training part divided
}

// maxRows is the largest number of rows in an engine's runs.
const maxRows = math.MaxInt32

// newProblem lays out d, which must pass checkData. With pad, every series gets leading zeros
// up to the length of the longest series of both parts.
func newProblem(d *archive.Dataset, pad bool) (*problem, error) {
	p := &problem{name: d.Name, channels: len(d.Channels)}
	listed := slices.Concat(labeled(d, archive.Train), labeled(d, archive.Test))
	index := p.classesOf(d)

	longest, rows := 0, 0
	for _, i := range listed {
		longest = max(longest, d.Len(i))
		rows += d.Len(i)
	}
	if pad {
		rows = longest * len(listed)
	}
	if rows > maxRows {
		return nil, fmt.Errorf("bench: data set %q: %d samples, padding included, want at most %d", d.Name, rows, maxRows)
	}
	p.inputs = make([]float32, rows*p.channels)
	at := 0
	for k, i := range listed {
		s := &d.Series[i]
		zeros := 0
		if pad {
			zeros = longest - d.Len(i)
		}
		p.from = append(p.from, at)
		copy(p.inputs[(at+zeros)*p.channels:], s.Values)
		at += zeros + d.Len(i)
		p.to = append(p.to, at)
		p.label = append(p.label, index[s.Label])
		if s.Split == archive.Train {
			p.train = append(p.train, k)
		} else {
			p.test = append(p.test, k)
		}
	}
	series := make([][]float32, len(p.from))
	for k := range series {
		series[k] = p.inputs[p.from[k]*p.channels : p.to[k]*p.channels]
	}
	p.first, p.lead = beginnings(series, p.channels)
	var err error
	p.fit, p.validation, err = divide(d) // the training part comes first: positions are series
	return p, err
}

// checkData reports the reasons why a protocol cannot run on d, before any work.
func checkData(d *archive.Dataset, protocol Protocol) error {
	err := checkParts(d)
	if err == nil && protocol != Bank {
		err = checkPaper(d)
	}
	return err
}

// checkParts requires training series, test series, and values within the range of a
// state.
func checkParts(d *archive.Dataset) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if len(d.Channels) == 0 {
		return fmt.Errorf("bench: data set %q %w", d.Name, datafile.ErrTokens)
	}
	train, test := labeled(d, archive.Train), labeled(d, archive.Test)
	if len(train) == 0 || len(test) == 0 {
		return fmt.Errorf("bench: data set %q has %d labeled training and %d test series, want at least one of each", d.Name, len(train), len(test))
	}
	first := d.Series[train[0]].Label
	if !slices.ContainsFunc(train, func(i int) bool { return d.Series[i].Label != first }) {
		return fmt.Errorf("bench: data set %q: all training series are of class %q, want at least two classes", d.Name, d.Classes[first])
	}
	learned := (&problem{}).classesOf(d)
	if !slices.ContainsFunc(test, func(i int) bool { return learned[d.Series[i].Label] >= 0 }) {
		return fmt.Errorf("bench: data set %q: no test series is of a class that has training series, want the same class names in both parts", d.Name)
	}
	return checkRange(d)
}

// checkRange requires values within the range of a state.
func checkRange(d *archive.Dataset) error {
	return refuseFirst(d, func(v float32) bool { return math.Abs(float64(v)) > reservoir.MaxInput },
		fmt.Sprintf("out of range, want a magnitude of at most %g", float64(reservoir.MaxInput)))
}

// checkPaper checks the additional requirements of the paper's protocols: no gaps, for
// which the paper has no rule, and divisible classes.
func checkPaper(d *archive.Dataset) error {
	err := refuseFirst(d, func(v float32) bool { return v != v },
		"missing, and the paper has no rule for missing values: use --protocol bank, or fill the values before the import")
	if err == nil {
		_, _, err = divide(d)
	}
	return err
}

// refuseFirst reports the first bad value.
func refuseFirst(d *archive.Dataset, bad func(float32) bool, why string) error {
	for i := range d.Series {
		s := &d.Series[i]
		if k := slices.IndexFunc(s.Values, bad); k >= 0 {
			return fmt.Errorf("bench: data set %q: series %q, sample %d, channel %q: value %v is %s",
				d.Name, s.ID, k/len(d.Channels), d.Channels[k%len(d.Channels)], s.Values[k], why)
		}
	}
	return nil
}

// divide splits the labeled training series as the published experiments did: into series
// to fit and series for validation, in their order, as positions among the labeled
// series.
func divide(d *archive.Dataset) (fit, validation []int, err error) {
	var names []string
	for _, i := range labeled(d, archive.Train) {
		names = append(names, d.Classes[d.Series[i].Label])
	}
	fit, validation, err = stratify(names, heldOutCount(len(names)), splitSeed)
	if err != nil {
		return nil, nil, fmt.Errorf("bench: data set %q: %w: take --protocol bank, which needs no validation part", d.Name, err)
	}
	return fit, validation, nil
}

// labeled lists the series of a part with a known class.
func labeled(d *archive.Dataset, part archive.Split) []int {
	return slices.DeleteFunc(d.Part(part), func(i int) bool { return d.Series[i].Label < 0 })
}

// classesOf keeps the classes with a training series, and returns the new index of each
// class of d.
func (p *problem) classesOf(d *archive.Dataset) []int {
	index := slices.Repeat([]int{-1}, len(d.Classes))
	for _, i := range labeled(d, archive.Train) {
		index[d.Series[i].Label] = 0
	}
	for k := range index {
		if index[k] == 0 {
			index[k] = len(p.classes)
			p.classes = append(p.classes, d.Classes[k])
		}
	}
	return index
}

// beginnings finds the most frequent repeated first sample, counted over all series, and
// the number of its repetitions in each series. Such samples are zeros or the vector of
// an empty word (padding), or the dark rim of an image. Samples are equal if their bits
// are; of several equally frequent samples, the first one counts.
func beginnings(series [][]float32, channels int) (first []float32, lead []int) {
	type begin struct {
		first []float32
		sum   int
	}
	bits := make([]byte, 0, 4*channels)
	index := map[string]int{} // by the bits of a series' first sample
	var begins []begin
	of := make([]int, len(series))
	lead = make([]int, len(series))
	for k, s := range series {
		bits = bits[:0]
		for _, v := range s[:channels] {
			bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(v))
		}
		b, known := index[string(bits)]
		if !known {
			b = len(begins)
			index[string(bits)] = b
			begins = append(begins, begin{first: s[:channels]})
		}
		of[k], lead[k] = b, countRepeats(s, channels)
		begins[b].sum += lead[k]
	}
	best := 0
	for b := range begins {
		if begins[b].sum > begins[best].sum {
			best = b
		}
	}
	for k := range lead {
		if of[k] != best {
			lead[k] = 0
		}
	}
	return slices.Clone(begins[best].first), lead
}

// countRepeats returns the number of equal samples at the beginning of a series.
func countRepeats(s []float32, channels int) int {
	for i := channels; i < len(s); i++ {
		if math.Float32bits(s[i]) != math.Float32bits(s[i-channels]) {
			return i / channels
		}
	}
	return len(s) / channels
}

// samples counts the samples of the listed series through which a reservoir must advance:
// without the shared prefixes, which rows counts.
func (p *problem) samples(series []int) int {
	n := 0
	for _, i := range series {
		n += p.to[i] - p.from[i] - p.lead[i]
	}
	return n
}

// describe returns the description of a data set in a results file.
func describe(d *archive.Dataset) Data {
	p := problem{}
	index := p.classesOf(d)
	data := Data{
		Dataset: d.Name, Train: d.Fingerprint(archive.Train), Test: d.Fingerprint(archive.Test),
		Series: len(labeled(d, archive.Train)), Channels: len(d.Channels), Classes: len(p.classes),
	}
	for _, i := range labeled(d, archive.Test) {
		class := index[d.Series[i].Label]
		data.Asked++
		if class < 0 {
			data.Unknown++
		}
		data.Truth = append(data.Truth, class)
	}
	data.Truth = storable(data.Truth)
	return data
}

// bankClasses are the predicted classes of the labeled test series, counted as in
// Data.Truth.
func bankClasses(d *archive.Dataset, ev *offline.Evaluation) (predicted []int) {
	p := problem{}
	p.classesOf(d)
	index := make([]int, len(ev.Classes))
	for c, name := range ev.Classes {
		index[c] = slices.Index(p.classes, name)
	}
	for _, q := range ev.Predictions {
		if q.Label >= 0 {
			predicted = append(predicted, index[q.Class])
		}
	}
	return predicted
}
