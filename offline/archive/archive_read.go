package archive

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow/go/v17/parquet"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// ReadDataset reads a whole dataset archive. It checks all rules of the layout; a file that is truncated, damaged, of
// another kind or version, or breaks a rule of the layout gives an error that names the file.
func ReadDataset(path string) (d *Dataset, err error) {
	defer guard(path, &err)
	in, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	defer in.file.Close()
	return decodeDataset(in)
}

func decodeDataset(in *parquetFile) (*Dataset, error) {
	meta, err := readMeta(layoutDataset, in.rd.MetaData().KeyValueMetadata().FindValue)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Name: meta.problem, Channels: meta.channels, Classes: meta.classes, Source: meta.source}
	a := archiveReader{d: d, classes: make(map[string]int, len(d.Classes)), ids: make(map[string]bool)}
	for i, c := range d.Classes {
		a.classes[c] = i
	}
	for _, name := range d.Channels {
		if _, ok := in.columns[name]; !ok {
			return nil, fmt.Errorf("column %q is missing, metadata key %s names it", name, keyChannels)
		}
	}
	for i := range in.rd.NumRowGroups() {
		in.pages = 0
		g, err := in.group(i)
		if err != nil {
			return nil, err
		}
		if err := a.group(g); err != nil {
			return nil, fmt.Errorf("row group %d: %w", i, err)
		}
	}
	if err := d.validate(); err != nil {
		return nil, err
	}
	return d, nil
}

// archiveReader gathers the series of an archive, row group by row group.
type archiveReader struct {
	d       *Dataset
	classes map[string]int // index of each class
	ids     map[string]bool
}

func (a *archiveReader) group(g *rowGroup) error {
	first := len(a.d.Series)
	lengths, err := a.describe(g)
	if err != nil {
		return err
	}
	if len(a.d.Channels) == 0 {
		return a.tokens(g, a.d.Series[first:], lengths)
	}
	return a.values(g, a.d.Series[first:], lengths)
}

// describe appends the series of a row group, yet without values, and returns
// their lengths.
func (a *archiveReader) describe(g *rowGroup) ([]int64, error) {
	if n := len(a.d.Series) + g.rows; n > maxSeries {
		return nil, fmt.Errorf("%d series, want at most %d: %w", n, maxSeries, datafile.ErrTooLarge)
	}
	ids, err := a.readIDs(g)
	if err != nil {
		return nil, err
	}
	splits, err := flat(g, "split", interner(), nil)
	if err != nil {
		return nil, err
	}
	labels, err := flat(g, "label", a.label, func() int { return -1 })
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if labels[i] < -1 {
			return nil, fmt.Errorf("series %q: its label is not among the classes in the metadata", names.Cut(id, 40))
		}
		a.d.Series = append(a.d.Series, Series{ID: id, Split: Split(splits[i]), Label: labels[i]})
	}
	return integers(g, "length")
}

// readIDs refuses a repeated id before later ids are read, because a few bytes can claim many repeated ids.
func (a *archiveReader) readIDs(g *rowGroup) (ids []string, err error) {
	defer g.whole()
	for g.restart(); g.batch(levelBatch); {
		some, err := flat(g, "id", parquet.ByteArray.String, nil)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			if a.ids[id] {
				return nil, fmt.Errorf("series id %q is repeated, want each once", names.Cut(id, 40))
			}
			a.ids[id] = true
		}
		ids = append(ids, some...)
	}
	return ids, nil
}

// label is the index of a class, -2 for an unknown class.
func (a *archiveReader) label(name parquet.ByteArray) int {
	if i, ok := a.classes[string(name)]; ok {
		return i
	}
	return -2
}

func (a *archiveReader) tokens(g *rowGroup, series []Series, lengths []int64) error {
	values, have, err := lists[int32](g, "tokens")
	if err != nil {
		return err
	}
	for i := range series {
		if int64(have[i]) != lengths[i] {
			return fmt.Errorf("series %q: length says %d, column tokens has %d", series[i].ID, lengths[i], have[i])
		}
		series[i].Tokens, values = values[:have[i]:have[i]], values[have[i]:]
	}
	return nil
}

// values fills in the channels of a row group, column by column.
func (a *archiveReader) values(g *rowGroup, series []Series, lengths []int64) error {
	channels := len(a.d.Channels)
	for c, name := range a.d.Channels {
		values, have, err := floatLists(g, name)
		if err != nil {
			return err
		}
		if c == 0 {
			if err := g.room(len(values), channels-1); err != nil {
				return err
			}
		}
		for i := range series {
			s := &series[i]
			if int64(have[i]) != lengths[i] {
				return fmt.Errorf("series %q: length says %d, channel %q has %d", s.ID, lengths[i], name, have[i])
			}
			if c == 0 {
				s.Values = make([]float32, int(have[i])*channels)
			}
			for t, v := range values[:have[i]] {
				s.Values[t*channels+c] = v
			}
			values = values[have[i]:]
		}
	}
	return nil
}

// SetTarget makes d a data set of numbers, from a column of the archive at path, the source of d. Null and NaN are
// unknown. The labels are removed: Classes is only the column's name, and Label is 0 for a known number.
func (d *Dataset) SetTarget(path, column string) error {
	missing, err := d.setTarget(path, column)
	return cmp.Or(missing, err)
}

// setTarget also reports a missing column, which is no fault of the file.
func (d *Dataset) setTarget(path, column string) (missing, err error) {
	defer guard(path, &err)
	in, err := openParquet(path)
	if err != nil {
		return nil, err
	}
	defer in.file.Close()
	if err := in.hasTarget(path, column, d.Channels); err != nil {
		return err, nil
	}
	var all []float64
	for i := range in.rd.NumRowGroups() {
		in.pages = 0
		g, err := in.group(i)
		if err != nil {
			return nil, err
		}
		some, err := numberColumn(g, column)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if len(all) != len(d.Series) {
		return nil, fmt.Errorf("%d series, want %d: the file changed while it was read", len(all), len(d.Series))
	}
	d.Target, d.Classes = column, []string{column}
	for i := range d.Series {
		d.Series[i].SetNumber(all[i])
	}
	return nil, nil
}
