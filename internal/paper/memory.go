package paper

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Long-term memorization, Fig. 4 of the paper: a pattern is near the beginning of a
// series, noise follows up to a total length, and only the state at the end is read.
const (
	memoryPrefix  = 20   // at most this many samples of noise before the pattern
	memoryPattern = 10   // samples of a synthetic pattern
	memorySeries  = 1000 // of the synthetic task, half of them training
	maxMemory     = 1 << 20
)

// SyntheticMemory is the synthetic task of one length: two fixed patterns of 10 standard
// normal numbers, 1000 series of standard normal noise with a pattern after 0 to 20
// samples, half of each class and 500 in each part. The patterns depend only on the seed,
// so tasks of different lengths share them.
func SyntheticMemory(length int, seed uint64) (*archive.Dataset, error) {
	pattern := rand.New(rand.NewPCG(seed, 0))
	patterns := [2][]float32{noise(pattern, memoryPattern), noise(pattern, memoryPattern)}
	d := &archive.Dataset{Name: "Synthetic", Channels: []string{"x"}, Classes: []string{"p1", "p2"}}
	for i := range memorySeries {
		s := archive.Series{ID: fmt.Sprint("train-", i), Split: archive.Train, Label: i % 2, Values: patterns[i%2]}
		if i >= memorySeries/2 {
			s.ID, s.Split = fmt.Sprint("test-", i-memorySeries/2), archive.Test
		}
		d.Series = append(d.Series, s)
	}
	return Memory(d, length, seed)
}

// Memory makes the memorization task of one length from a data set: each labeled series
// is the pattern, the noise has the same channels. The name of the result combines both.
func Memory(d *archive.Dataset, length int, seed uint64) (*archive.Dataset, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if len(d.Channels) == 0 {
		return nil, fmt.Errorf("bench: data set %q holds token lists, want numeric channels", d.Name)
	}
	c := len(d.Channels)
	rng := rand.New(rand.NewPCG(seed, uint64(length)))
	m := &archive.Dataset{Name: d.Name + memoryLength + strconv.Itoa(length), Channels: d.Channels, Classes: d.Classes}
	for i := range d.Series {
		s := d.Series[i]
		if s.Label < 0 {
			continue
		}
		if least := memoryPrefix + d.Len(i); length < least || length > maxMemory {
			return nil, fmt.Errorf("bench: data set %q: length %d, want %d (%d samples of noise and the %d of series %q) to %d",
				d.Name, length, least, memoryPrefix, d.Len(i), s.ID, maxMemory)
		}
		values := noise(rng, c*rng.IntN(memoryPrefix+1))
		values = append(values, s.Values...)
		s.Values = append(values, noise(rng, c*length-len(values))...)
		m.Series = append(m.Series, s)
	}
	return m, nil
}

// MemoryTask splits the name of a memorization task; false for other data sets.
func MemoryTask(dataset string) (task string, length int, ok bool) {
	at := strings.LastIndex(dataset, memoryLength)
	if at <= 0 {
		return "", 0, false
	}
	length, err := strconv.Atoi(dataset[at+len(memoryLength):])
	return dataset[:at], length, err == nil && length > 0
}

// memoryLength is between a task's name and its length.
const memoryLength = " T="

// noise returns n standard normal numbers.
func noise(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}
