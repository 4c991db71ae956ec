package cpu

import "github.com/eusn-stream/eusn-stream/reservoir"

// ForceShape makes a vector engine advance every tile by one kind of kernel:
// "single", "narrow" or "wide".
func ForceShape(e reservoir.Engine, shape string) reservoir.Engine {
	v := e.(*vectorEngine)
	switch shape {
	case "single":
		if v.net.Spec.Kind != reservoir.RESN || v.set.RingSingle != nil { // NEON has no such kernel for a ring
			v.singles = v.set.Wide.Lanes
		}
	case "narrow":
		v.singles = 0
		v.plan.lanes = v.set.Narrow.Lanes
	case "wide":
		v.singles, v.narrows, v.plan.lanes = 0, 0, v.set.Wide.Lanes
	}
	for _, w := range v.gang.workers {
		w.(*worker).makeRoom()
	}
	return v
}

func (v *vectorPool) shared() *vectorPool { return v }

// ForceThreads makes a vector engine use its threads for any amount of work,
// and prefetch states for any number of them.
func ForceThreads(e reservoir.Engine) reservoir.Engine {
	v := e.(interface{ shared() *vectorPool }).shared()
	v.plan.perSample, v.plan.perEmit = 1e12, 1e12
	v.far = true
	return e
}
