package paper

import (
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Work says how much of a run is done and which jobs to begin with. It is counted
// in gigaflops of a large reservoir's matrix product; whatever else takes time
// counts as the multiply-adds of it that take as long on one core. The numbers are
// those of a Zen 3 and AVX2, BenchmarkWork shows how well they fit.
func gigaflops(multiplyAdds float64) float64 { return 2e-9 * multiplyAdds }

// steps is the work of advancing one network by that many samples.
func steps(s reservoir.Spec, samples int) float64 {
	depth := float64(s.Units + s.Inputs() + 40) // what else a unit takes, its tanh above all
	if s.Kind == reservoir.RESN {
		depth = float64(3*s.Inputs() + 55) // the ring is one product
	}
	return gigaflops(float64(samples) * (float64(s.Units)*depth + 350))
}

// layered is steps of networks in layers. They take a sample at a time, which
// costs a call and a copy of the states for each.
func layered(list []reservoir.Spec, samples int) (sum float64) {
	for _, s := range list {
		sum += steps(s, samples) + gigaflops(float64(samples)*float64(120*s.Units+5400))
	}
	return sum
}

// work is that of a trial or draw of a reservoir: that many samples through its
// networks, and a readout fitted to that many series.
func (s Settings) work(model string, channels int, c Scales, samples, series int) float64 {
	list := specs(model, channels, c)
	run := steps(list[0], samples)
	if len(list) > 1 {
		run = layered(list, samples)
	}
	n := float64(c.Units)
	if s.Protocol == PaperExact {
		return run + gigaflops(40*n*n*n)
	}
	return run + gigaflops(100*float64(series)*n*(n+85)) // several regularisations, each sample left out
}

// bankWork is a draw of a bank: its states and what is summed up meanwhile,
// and the readout, a product and about nine factorisations and inverses of the
// smaller of its two systems, in numbers twice as long.
func bankWork(d *archive.Dataset, s reservoir.Spec) float64 {
	samples, series := 0, len(labelled(d, archive.Train))
	for i := range d.Series {
		samples += d.Len(i)
	}
	n, f := float64(series), float64(s.FeatureCount())
	m := min(n, f)
	return bankSteps(s, samples) + gigaflops(2*(n*f*m+9*(m*m*m+max(0, n-f)*f*f)))
}

func bankSteps(s reservoir.Spec, samples int) float64 {
	return float64(s.Members) * (steps(s, samples) + gigaflops(float64(samples)*float64(40*s.Units)))
}

// expected plans the work that a model on a data set still takes, about: draws are
// counted before their configuration is known.
func (r *runner) expected(d *archive.Dataset, model string) {
	if trained(model) {
		r.expectedTraining(d, model)
		return
	}
	if isBank(model) {
		r.expectedBank(d, model)
		return
	}
	channels := len(d.Channels)
	series, train, test := len(labelled(d, archive.Train)), samples(d, archive.Train), samples(d, archive.Test)
	trials, draws := 0.0, 0.0
	for i, c := range r.settings.configurations(model)[:r.Configurations] {
		if _, ok := r.trials[key{d.Name, model, i}]; !ok {
			trials += r.settings.work(model, channels, c, train, series)
		}
	}
	for i := range r.Draws {
		if _, ok := r.draws[key{d.Name, model, i}]; !ok { // large networks win
			draws += r.settings.work(model, channels, Scales{Units: 170, Layers: 2}, train+test, series)
		}
	}
	r.plan(phase{d.Name, model, false}, trials)
	r.plan(phase{d.Name, model, true}, draws)
}

// expectedBank plans the draws of a bank, of which all is known.
func (r *runner) expectedBank(d *archive.Dataset, model string) {
	spec, draws := bankOptions(model, d).Spec, 0.0
	for i := range r.Draws {
		if !r.drawn(d, model, i) {
			draws += bankWork(d, spec)
		}
	}
	r.plan(phase{d.Name, model, true}, draws)
}

// samples counts those of a part that a reservoir has to be advanced by: not the
// beginnings that series share.
func samples(d *archive.Dataset, part archive.Split) (n int) {
	var series [][]float32
	for _, i := range labelled(d, part) {
		series = append(series, d.Series[i].Values)
		n += d.Len(i)
	}
	if _, lead := beginnings(series, len(d.Channels)); n > 0 {
		for _, l := range lead {
			n -= l
		}
	}
	return n
}
