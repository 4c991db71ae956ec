package imports

import (
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// findAbsent finds the parts of the listed series without any values: the first empty
// series, the number of empty series, and the channels without values in all series.
// Filled with values, such parts are constants for a network.
func findAbsent(d *archive.Dataset, series []int) (first string, empty int, channels []string) {
	heard := make([]bool, len(d.Channels))
	for _, i := range series {
		s, any := &d.Series[i], len(d.Channels) == 0
		for k, v := range s.Values {
			if v == v {
				heard[k%len(d.Channels)], any = true, true
			}
		}
		if !any {
			if empty++; first == "" {
				first = s.ID
			}
		}
	}
	for c, ok := range heard {
		if !ok && len(series) > 0 {
			channels = append(channels, d.Channels[c])
		}
	}
	return first, empty, channels
}

// warnAbsent adds warnings about the absent parts.
func warnAbsent(d *archive.Dataset, split archive.Split) {
	first, empty, channels := findAbsent(d, d.Part(split))
	if empty > 0 {
		addWarning(d, "%d series of the %s part without a single value, the first %s", empty, split, first)
	}
	if len(channels) > 0 {
		addWarning(d, "%d of %d channels without a single value in the %s part, the first %s", len(channels), len(d.Channels), split, names.Cut(channels[0], 40))
	}
}
