package alarm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// ChannelShare is a channel's share in how unlike the training data a sequence is.
type ChannelShare struct {
	Channel   int     `json:"channel"`   // from 0
	Share     float64 `json:"share"`     // of all channels, rounded to thousandths
	Input     string  `json:"input"`     // the statistic with the largest deviation: level, spread or pace
	Deviation float32 `json:"deviation"` // of Input, in deviations of the training sequences
}

const (
	mostShares     = 5   // channels of an event
	leastShare     = .05 // smaller shares are left out
	usualDeviation = 2   // up to this size a deviation has no share
)

// shareChannels returns the channels that contribute most to a sequence's deviations, largest share
// first. inputs are the statistics of each channel (outcome.Answer.Inputs). With v the deviations
// of a channel whose size is above usualDeviation, the channel's part is the sum of v^2, and its
// share the part divided by the sum of the parts of all channels. nil: no deviation is that large,
// or a number is not finite. The result has the same bits on every platform.
func shareChannels(inputs []float32) (shares []ChannelShare) {
	sum := 0.
	for c := 0; (c+1)*novelty.InputsOf <= len(inputs); c++ {
		s := ChannelShare{Channel: c}
		for k, v := range inputs[c*novelty.InputsOf : (c+1)*novelty.InputsOf] {
			if !isFinite(v) {
				return nil
			}
			size := math.Abs(float64(v))
			if size > math.Abs(float64(s.Deviation)) {
				s.Input, s.Deviation = novelty.InputNames[k], v
			}
			if size > usualDeviation {
				s.Share += float64(size * size)
			}
		}
		sum += s.Share
		shares = append(shares, s)
	}
	shares = slices.DeleteFunc(shares, func(s ChannelShare) bool { return !(s.Share > 0 && s.Share >= leastShare*sum) })
	slices.SortStableFunc(shares, func(a, b ChannelShare) int { return cmp.Compare(b.Share, a.Share) })
	shares = shares[:min(len(shares), mostShares)]
	for i := range shares {
		shares[i].Share = math.Round(1000*(shares[i].Share/sum)) / 1000
	}
	return slices.Clip(shares)
}

// ChannelsText returns the shares as text: channel 2: 81 % (level +7.2). Empty without shares.
func (e *Event) ChannelsText() string {
	var parts []string
	for _, s := range e.Channels {
		parts = append(parts, fmt.Sprintf("channel %d: %.0f %% (%s %+.3g)", s.Channel, 100*s.Share, s.Input, s.Deviation))
	}
	return strings.Join(parts, ", ")
}
