// Package dense is the little dense linear algebra that learning a readout
// needs: symmetric products, Cholesky factorisation, triangular solves and
// the inverse of a triangle, all float64 and row-major.
//
// Everything is recursive down to small leaves and spends its time in one
// place, Multiply. A factorisation library is not used because the available
// one reaches a tenth of its own matrix product's speed on symmetric
// products, triangular solves and eigenvectors.
//
// Results do not depend on the number of threads: work is split over whole
// output elements, and each element is summed in one fixed order.
//
// Shapes are the caller's duty: a wrong one panics, as out-of-range slice
// indices do.
package dense
