package offline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Operating regimes are clusters of the settings of the labeled samples, by k-means on settings divided by their
// deviation. Without a number of regimes it is the least with a within-cluster sum of squares of at most fewLeft of the
// total, up to mostChosen; if there is none, the settings form no separate regimes, and all samples are one regime.
const (
	mostClustered = 1 << 13 // samples
	mostChosen    = 12
	mostRegimes   = 64
	fewLeft       = .001
	restarts      = 8
	iterations    = 100
	// A sample is unlike the training at reachFactor times the largest distance of the regime's training samples, and
	// at least at nearShare of the distance to the nearest other center: settings may have no noise at all.
	reachFactor = 2
	nearShare   = .1
)

// checkSettings refuses settings that are no channels, or all channels.
func (o *RetrainOptions) checkSettings(channels []string) error {
	switch {
	case len(o.Settings) == 0 && o.Regimes != 0:
		return fmt.Errorf("offline: %d operating regimes and no settings: want the channels that determine the regime, too", o.Regimes)
	case o.Regimes < 0 || o.Regimes > mostRegimes:
		return fmt.Errorf("offline: %d operating regimes, want 1 to %d", o.Regimes, mostRegimes)
	}
	for i, name := range o.Settings {
		if !slices.Contains(channels, name) {
			return fmt.Errorf("offline: setting %q is no channel, want one of %q", name, channels)
		}
		if slices.Contains(o.Settings[:i], name) {
			return fmt.Errorf("offline: setting %q is named twice", name)
		}
	}
	if len(channels) > 0 && len(o.Settings) == len(channels) {
		return fmt.Errorf("offline: all %d channels are settings, and nothing is left for the network", len(channels))
	}
	return nil
}

// settingsSample keeps settings of labeled samples, at most mostClustered: the samples with the least hashes of stream
// and place, in any order of the streams.
type settingsSample struct {
	settings []int
	channels int
	limit    uint64
	seen     map[int]uint64 // samples of each stream
	rows     []settingsRow
}

type settingsRow struct {
	hash   uint64
	values []float64
}

func newSettingsSample(settings []int, channels int) *settingsSample {
	return &settingsSample{settings: settings, channels: channels, limit: math.MaxUint64, seen: map[int]uint64{}}
}

// add takes the samples of a chunk.
func (s *settingsSample) add(p *chunk) {
	p.eachKnown(s.channels, func(sample []float32) {
		n := s.seen[p.stream]
		s.seen[p.stream]++
		values := make([]float64, len(s.settings))
		for j, c := range s.settings {
			if values[j] = float64(sample[c]); values[j] != values[j] {
				return
			}
		}
		if h := mix(mix(uint64(p.stream)) + n); h <= s.limit {
			s.rows = append(s.rows, settingsRow{h, values})
		}
	})
	for len(s.rows) > mostClustered {
		s.limit /= 2
		s.rows = slices.DeleteFunc(s.rows, func(r settingsRow) bool { return r.hash > s.limit })
	}
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// eachKnown visits the samples that the input statistics read.
func (p *chunk) eachKnown(channels int, visit func(sample []float32)) {
	for r, label := range p.labels {
		if label >= 0 || p.counts {
			visit(p.values[r*channels : (r+1)*channels])
		}
	}
}

// regimes finds the regimes: k of them; 0: by the rule above.
func (s *settingsSample) regimes(k int) (*reservoir.Regimes, error) {
	if len(s.rows) == 0 {
		return nil, fmt.Errorf("offline: no labeled sample has values of all settings")
	}
	g := &reservoir.Regimes{Settings: s.settings, Mean: make([]float64, len(s.settings)), Scale: make([]float64, len(s.settings))}
	points := make([][]float64, len(s.rows))
	slices.SortFunc(s.rows, func(a, b settingsRow) int { return slices.Compare(a.values, b.values) })
	for i, r := range s.rows {
		points[i] = r.values
	}
	for j := range s.settings {
		mean, squares, n := 0., 0., float64(len(points))
		for _, p := range points {
			mean += p[j] / n
		}
		for _, p := range points {
			squares += float64((p[j] - mean) * (p[j] - mean))
		}
		// Rounding of float32 is no deviation.
		if g.Mean[j] = mean; squares > n*1e-12*float64(mean*mean) {
			g.Scale[j] = min(1e15, math.Sqrt(n/squares))
		}
		for _, p := range points {
			p[j] = (p[j] - mean) * g.Scale[j]
		}
	}
	total, _ := cluster(points, 1)
	for n := 1; k == 0 && n <= mostChosen; n++ {
		if left, centers := cluster(points, n); left <= fewLeft*total {
			g.Centers, k = centers, n
		}
	}
	if g.Centers == nil {
		_, g.Centers = cluster(points, max(1, k))
	}
	return g, nil
}

// cluster is k-means: the centers in ascending order, and the sum of the squared distances from the nearest center. Fewer
// distinct points than n give fewer centers.
func cluster(points [][]float64, k int) (least float64, best [][]float64) {
	least = math.Inf(1)
	for start := range uint64(restarts) {
		centers := seed(points, k, rand.New(rand.NewPCG(1, start)))
		sum, of := math.Inf(1), make([]int, len(points))
		for range iterations {
			now := assign(points, centers, of)
			if now >= sum {
				break
			}
			sum = now
			move(points, centers, of)
		}
		if sum < least {
			least, best = sum, centers
		}
	}
	slices.SortFunc(best, func(a, b []float64) int { return slices.Compare(a, b) })
	return least, best
}

// seed draws the first centers as k-means++ does: each with a probability proportional to its squared distance from
// the centers before it.
func seed(points [][]float64, k int, rng *rand.Rand) (centers [][]float64) {
	centers = append(centers, slices.Clone(points[rng.IntN(len(points))]))
	from := make([]float64, len(points))
	for i := range from {
		from[i] = math.Inf(1)
	}
	for len(centers) < k {
		sum := 0.
		for i, p := range points {
			from[i] = min(from[i], squaredDistance(p, centers[len(centers)-1]))
			sum += from[i]
		}
		if sum == 0 {
			break
		}
		at, rest := len(points)-1, float64(rng.Float64()*sum)
		for i, d := range from {
			if rest -= d; rest < 0 {
				at = i
				break
			}
		}
		centers = append(centers, slices.Clone(points[at]))
	}
	return centers
}

// assign sets of to the nearest center of each point, and returns the sum of the squared distances.
func assign(points, centers [][]float64, of []int) (sum float64) {
	for i, p := range points {
		least := math.Inf(1)
		for r, c := range centers {
			if d := squaredDistance(p, c); d < least {
				least, of[i] = d, r
			}
		}
		sum += least
	}
	return sum
}

// move sets each center to the mean of its points; a center without points stays.
func move(points, centers [][]float64, of []int) {
	count := make([]float64, len(centers))
	sums := make([][]float64, len(centers))
	for r, c := range centers {
		sums[r] = make([]float64, len(c))
	}
	for i, p := range points {
		count[of[i]]++
		for j, v := range p {
			sums[of[i]][j] += v
		}
	}
	for r, c := range centers {
		for j := range c {
			if count[r] > 0 {
				c[j] = sums[r][j] / count[r]
			}
		}
	}
}

func squaredDistance(a, b []float64) (sum float64) {
	for j := range a {
		sum += float64((a[j] - b[j]) * (a[j] - b[j]))
	}
	return sum
}

// regimeStatistics describe the samples of each regime.
type regimeStatistics struct {
	of       *reservoir.Regimes
	channels int
	inputs   []*reservoir.InputStatistics
	farthest []float64 // squared distance
}

func newRegimeStatistics(g *reservoir.Regimes, channels int) *regimeStatistics {
	s := &regimeStatistics{of: g, channels: channels, farthest: make([]float64, len(g.Centers)), inputs: make([]*reservoir.InputStatistics, len(g.Centers))}
	g.Reach = make([]float64, len(g.Centers))
	for r := range s.inputs {
		s.inputs[r] = reservoir.NewInputStatistics(channels)
	}
	return s
}

// add takes the samples of a chunk with values of all settings.
func (s *regimeStatistics) add(p *chunk) {
	p.eachKnown(s.channels, func(sample []float32) {
		for _, c := range s.of.Settings {
			if sample[c] != sample[c] {
				return
			}
		}
		r, _ := s.of.Of(sample)
		s.farthest[r] = max(s.farthest[r], s.of.Distance(sample, r))
		s.inputs[r].Series().Add(sample)
	})
}

// finish sets what the regimes lack: means, scales and reach. Settings are left out of the network's input: within a
// regime they are noise. With settings as inputs the errors of left-out units are higher (docs/results/remaining-life.csv):
// 14.81 and not 13.94 with six synthetic regimes, 14.65 and not 13.89 on C-MAPSS FD001, 13.01 and not 12.95 on FD003.
func (s *regimeStatistics) finish(spec reservoir.Spec) {
	spec.Standardize = true
	for r, in := range s.inputs {
		norm := in.Norm(spec)
		for _, c := range s.of.Settings {
			norm.Mean[c], norm.Scale[c] = 0, 0
		}
		s.of.Means, s.of.Scales = append(s.of.Means, norm.Mean), append(s.of.Scales, norm.Scale)
		nearest := 0.
		for q, center := range s.of.Centers {
			if d := squaredDistance(center, s.of.Centers[r]); q != r && (nearest == 0 || d < nearest) {
				nearest = d
			}
		}
		s.of.Reach[r] = max(reachFactor*math.Sqrt(s.farthest[r]), nearShare*math.Sqrt(nearest))
	}
}

// setRegimes finds the regimes, if there are settings, and adds them to the front end. The material is read twice.
func (t *training) setRegimes(ctx context.Context) error {
	if len(t.opt.Settings) == 0 {
		return nil
	}
	var settings []int
	for c, name := range t.src.channels {
		if slices.Contains(t.opt.Settings, name) {
			settings = append(settings, c)
		}
	}
	width := len(t.src.channels)
	seen := newSettingsSample(settings, width)
	err := t.src.read(ctx, func(p *chunk) error { seen.add(p); return nil })
	if err != nil {
		return err
	}
	g, err := seen.regimes(t.opt.Regimes)
	if err != nil {
		return err
	}
	of := newRegimeStatistics(g, width)
	if err := t.src.read(ctx, func(p *chunk) error { of.add(p); return nil }); err != nil {
		return err
	}
	of.finish(t.opt.Spec)
	t.front = cmp.Or(t.front, &reservoir.Front{})
	t.front.Regimes = g
	return nil
}
