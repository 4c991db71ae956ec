package groups

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Parts divides groups into a training part and a test part. People may read and change its
// JSON.
type Parts struct {
	Format int      `json:"eusn_parts"` // partsFormat
	Rule   string   `json:"rule"`
	Share  float64  `json:"share"` // requested share of the test part, of the labeled data
	Seed   uint64   `json:"seed"`
	Train  []string `json:"train"`
	Test   []string `json:"test"`
}

const partsFormat = 1

// Size is the amount of data in a group, and in each class of the group.
type Size struct {
	Group   string
	Classes map[string]int64 // labeled series of a data set, or samples of a recording
}

// All returns the group's labeled series or samples.
func (s Size) All() (n int64) {
	for _, of := range s.Classes {
		n += of
	}
	return n
}

// Divide draws whole groups for the test part, in an order given by the seed and their names,
// until the part is nearest to the share; each part has at least one group.
func Divide(rule *Rule, sizes []Size, share float64, seed uint64) (*Parts, error) {
	if !(share > 0 && share < 1) {
		return nil, fmt.Errorf("a test part of %v of the data, want more than 0 and less than 1", share)
	}
	if len(sizes) < 2 {
		return nil, fmt.Errorf("%d groups by %s: want at least two, one for each part", len(sizes), rule)
	}
	drawn := slices.Clone(sizes)
	slices.SortFunc(drawn, func(a, b Size) int {
		return cmp.Or(bytes.Compare(place(seed, a.Group), place(seed, b.Group)), cmp.Compare(a.Group, b.Group))
	})
	total, sum, taken := int64(0), int64(0), 1
	for _, s := range drawn {
		total += s.All()
	}
	least := math.Inf(1)
	for i, s := range drawn[:len(drawn)-1] {
		sum += s.All()
		if off := math.Abs(float64(sum) - share*float64(total)); off < least {
			least, taken = off, i+1
		}
	}
	p := &Parts{Format: partsFormat, Rule: rule.String(), Share: share, Seed: seed}
	for i, s := range drawn {
		if i < taken {
			p.Test = append(p.Test, s.Group)
		} else {
			p.Train = append(p.Train, s.Group)
		}
	}
	slices.Sort(p.Train)
	slices.Sort(p.Test)
	return p, nil
}

// place returns a group's position in the order of a seed.
func place(seed uint64, group string) []byte {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64([]byte("eusn-parts-1"), seed), group...))
	return sum[:]
}

// longestParts limits a file of parts: some hundred thousand groups.
const longestParts = 64 << 20

// ErrParts reports a file without parts.
var ErrParts = errors.New("not a file of training and test parts")

// ReadParts reads a file written by Encode, possibly edited.
func ReadParts(path string) (*Parts, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestParts+1))
	if err != nil {
		return nil, err
	}
	p, err := DecodeParts(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// DecodeParts reads the JSON of parts.
func DecodeParts(text []byte) (*Parts, error) {
	if len(text) > longestParts {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrParts, longestParts)
	}
	p := &Parts{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParts, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the parts, want one object")
	}
	return p, p.checkParts()
}

func (p *Parts) checkParts() error {
	if p.Format != partsFormat {
		return fmt.Errorf("eusn_parts is %d, want %d: use the release that wrote it", p.Format, partsFormat)
	}
	if _, err := Parse(p.Rule); err != nil {
		return fmt.Errorf("rule: %w", err)
	}
	if len(p.Train) == 0 || len(p.Test) == 0 {
		return fmt.Errorf("%d groups to train on and %d to test, want at least one each", len(p.Train), len(p.Test))
	}
	seen := map[string]bool{}
	for _, g := range slices.Concat(p.Train, p.Test) {
		switch {
		case g == "":
			return errors.New("a group without a name")
		case seen[g]:
			return fmt.Errorf("group %q is there twice, want it in one part", names.Cut(g, 60))
		}
		seen[g] = true
	}
	return nil
}

// Encode returns p as JSON, a group per line.
func (p *Parts) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(p, "", "  ")
	return append(text, '\n'), err
}

// Grouping returns the rule of checked parts.
func (p *Parts) Grouping() (*Rule, error) { return Parse(p.Rule) }
