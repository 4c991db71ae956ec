package bench

import "github.com/eusn-stream/eusn-stream/reservoir"

// work is the cost of a sample in a network, in operations of one lane of a vector.
type work struct {
	multiplyAdds float64 // of only the products
	operations   float64 // all of the step, the products included; 0 if unknown
}

// Operations of the step of kind mixed in addition to the products: the minimum for a vector engine, see
// docs/mixed-bank.md. Loads, stores and the transform of the inputs are not included.
const (
	gatherOperations = 3.   // each input of a member: its value to the member's lane
	updateOperations = 1.   // each unit: h + activation
	sumOperations    = 3.   // sum, sum of squares, max
	signOperations   = 1.75 // ppv, sc: comparisons, and counts that are collected in bytes
	groupOperations  = 5.75 // win, lose: two trees of 7 comparisons for a group of 8; comparisons and counts of each unit
)

// activationOperations are the operations of a unit.
var activationOperations = map[reservoir.Activation]float64{reservoir.Cubic: 5, reservoir.Clip: 2}

// workOf counts operations from the network's recipe and its drawn members.
func workOf(net *reservoir.Network) work {
	var w work
	var inputs float64
	for _, m := range net.Members {
		w.multiplyAdds += float64(len(m.Recurrent) + len(m.Input))
		inputs += float64(len(m.Inputs))
	}
	activation, known := activationOperations[net.Spec.Taps.Activation]
	if net.Spec.Kind != reservoir.Mixed || !known {
		return w
	}
	units := float64(net.Spec.Members * net.Spec.Units)
	w.operations = w.multiplyAdds + inputs*gatherOperations + units*(activation+updateOperations+sumOperations+signOperations+groupOperations)
	return w
}
