// Command gonum is a peer of tools/peers: the step with gonum's matrix product
// and math.Tanh, as a Go programmer would write it without this project.
//
//	gonum UNITS INPUTS STREAMS SAMPLES
//
// It prints "ready" with its error against float64, then answers each line of
// standard input (seconds to work) with stream-steps per second.
package main

import (
	"bufio"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

const (
	eps       = float32(.01)
	tolerance = 1e-4 // float32 against float64: rounding only
)

// network is h' = h + eps tanh(M h + U x + b), with [h x 1] as one operand.
type network struct {
	units, inputs, streams int
	weights                blas32.General // (units + inputs + 1) x units
	operand, z             blas32.General // streams x (units + inputs + 1), streams x units
	x                      []float32      // samples x streams x inputs
}

func newNetwork(units, inputs, streams, samples int) *network {
	rng := rand.New(rand.NewPCG(1, 2))
	depth := units + inputs + 1
	matrix := func(rows, cols int) blas32.General {
		return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
	}
	n := &network{units: units, inputs: inputs, streams: streams, weights: matrix(depth, units), operand: matrix(streams, depth), z: matrix(streams, units)}
	w := n.weights.Data
	for i := range units {
		for j := range i {
			v := .2*rng.Float32() - .1
			w[i*units+j], w[j*units+i] = v, -v
		}
		w[i*units+i] = -.001
	}
	for k := units * units; k < len(w); k++ {
		w[k] = 2*rng.Float32() - 1
	}
	n.x = make([]float32, samples*streams*inputs)
	for i := range n.x {
		n.x[i] = float32(rng.NormFloat64())
	}
	return n
}

// call starts every stream again and takes all samples.
func (n *network) call() {
	a, depth := n.operand.Data, n.operand.Stride
	clear(a)
	for s := range n.streams {
		a[(s+1)*depth-1] = 1
	}
	for at := 0; at < len(n.x); at += n.streams * n.inputs {
		for s := range n.streams {
			copy(a[s*depth+n.units:], n.x[at+s*n.inputs:][:n.inputs])
		}
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, n.operand, n.weights, 0, n.z)
		for s := range n.streams {
			h, z := a[s*depth:][:n.units], n.z.Data[s*n.units:][:n.units]
			for i, v := range z {
				h[i] += eps * float32(math.Tanh(float64(v)))
			}
		}
	}
}

// compareStates compares the first stream with float64.
func (n *network) compareStates() float64 {
	h, z := make([]float64, n.units), make([]float64, n.units)
	w := n.weights.Data
	for at := 0; at < len(n.x); at += n.streams * n.inputs {
		for i := range n.units {
			z[i] = float64(w[(n.units+n.inputs)*n.units+i])
			for k, v := range h {
				z[i] += v * float64(w[k*n.units+i])
			}
			for c, v := range n.x[at:][:n.inputs] {
				z[i] += float64(v) * float64(w[(n.units+c)*n.units+i])
			}
		}
		for i := range h {
			h[i] += float64(eps) * math.Tanh(z[i])
		}
	}
	var diff, norm float64
	for i, v := range h {
		d := float64(n.operand.Data[i]) - v
		diff, norm = diff+d*d, norm+v*v
	}
	return math.Sqrt(diff / norm)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatal("usage: gonum UNITS INPUTS STREAMS SAMPLES")
	}
	var size [4]int
	for i, arg := range os.Args[1:] {
		v, err := strconv.Atoi(arg)
		if err != nil || v < 1 {
			log.Fatalf("gonum: %q, want a positive number", arg)
		}
		size[i] = v
	}
	n := newNetwork(size[0], size[1], size[2], size[3])
	n.call()
	e := n.compareStates()
	if !(e < tolerance) {
		log.Fatalf("gonum: relative error %.1e against float64, want below %.0e", e, tolerance)
	}
	fmt.Printf("ready blas32.Gemm and math.Tanh; %d samples a call; error %.0e\n", size[3], e)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		seconds, err := strconv.ParseFloat(in.Text(), 64)
		if err != nil {
			log.Fatalf("gonum: %v", err)
		}
		begin, calls := time.Now(), 0
		for calls == 0 || time.Since(begin).Seconds() < seconds {
			n.call()
			calls++
		}
		fmt.Println(float64(calls*size[2]*size[3]) / time.Since(begin).Seconds())
	}
}
