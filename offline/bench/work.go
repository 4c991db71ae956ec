package bench

import (
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// work is that of advancing a model's networks by so many samples.
func work(model string, channels int, c offline.PaperScales, samples int) (sum float64) {
	for _, s := range specs(model, channels, c) {
		sum += gigaflops(s.Kind, s.Units, s.Channels, samples)
	}
	return sum
}

// gigaflops of advancing one network by so many samples.
func gigaflops(kind reservoir.Kind, units, channels, samples int) float64 {
	depth := units + channels
	if kind == reservoir.RESN {
		depth = channels + 20 // the ring is one product, the rest is what else a step costs
	}
	return 2e-9 * float64(units) * float64(depth) * float64(samples)
}

// expected is the work that a model on a data set still takes, about.
func (r *runner) expected(d *offline.Dataset, model string) float64 {
	if trained(model) {
		return r.expectedTraining(d, model)
	}
	train, all := 0, 0
	for i := range d.Series {
		all += d.Len(i)
		if d.Series[i].Split == offline.Train {
			train += d.Len(i)
		}
	}
	sum, channels := 0.0, len(d.Channels)
	if model != BankModel {
		for i, c := range Configurations(model)[:r.Configurations] {
			if _, ok := r.trials[key{d.Name, model, i}]; !ok {
				sum += work(model, channels, c, train)
			}
		}
	}
	for i := range r.Draws {
		if _, ok := r.draws[key{d.Name, model, i}]; ok {
			continue
		}
		if model == BankModel {
			sum += bankWork(d)
		} else {
			sum += work(model, channels, offline.PaperScales{Units: 170, Layers: 2}, all) // not known before the search: large networks win
		}
	}
	return sum
}

// bankWork is a draw of the bank: its states, and the readout, a product and
// about nine factorisations and inverses of the smaller of its two systems, in
// numbers twice as long.
func bankWork(d *offline.Dataset) float64 {
	s := offline.DefaultBank(len(d.Channels))
	samples, series := 0, len(labelled(d, offline.Train))
	for i := range d.Series {
		samples += d.Len(i)
	}
	n, f := float64(series), float64(s.FeatureCount())
	m := min(n, f)
	return float64(s.Members)*gigaflops(s.Kind, s.Units, s.Inputs(), samples) + 2e-9*(n*f*m+9*(m*m*m+max(0, n-f)*f*f))
}
