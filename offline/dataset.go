package offline

// Split says which part of a benchmark a series belongs to.
type Split string

// The two parts of a benchmark data set.
const (
	Train Split = "train"
	Test  Split = "test"
)

// Series is one labelled sequence of a Dataset.
type Series struct {
	ID     string    // unique within the data set, e.g. "train-17"
	Split  Split     // which part it belongs to
	Label  int       // index into Dataset.Classes; -1 where unknown
	Values []float32 // samples x channels, row-major; NaN where the source has a missing value
	Tokens []int32   // instead of Values where the data set holds token lists
}

// Dataset is a collection of labelled sequences, whole in memory.
type Dataset struct {
	Name     string
	Channels []string // channel names; empty for token lists
	Classes  []string // sorted labels
	Series   []Series
	Source   Provenance
}

// Provenance says where an archive's data came from; it travels in the
// archive's metadata.
type Provenance struct {
	Files   []SourceFile `json:"files"`
	Format  string       `json:"format"` // ts, tsv, arff, idx, tokens, csv, simulation
	Tool    string       `json:"tool"`
	License string       `json:"license,omitzero"`
	Note    string       `json:"note,omitzero"`
}

// SourceFile is one imported file.
type SourceFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Part returns the indices of the series of one split, in order.
func (d *Dataset) Part(s Split) []int {
	var idx []int
	for i := range d.Series {
		if d.Series[i].Split == s {
			idx = append(idx, i)
		}
	}
	return idx
}

// Len is the number of samples of series i.
func (d *Dataset) Len(i int) int {
	if len(d.Channels) == 0 {
		return len(d.Series[i].Tokens)
	}
	return len(d.Series[i].Values) / len(d.Channels)
}
