package datafile

import "errors"

// MaxChannels bounds the channels of an archive.
const MaxChannels = 1 << 16

// MaxValues bounds the values of a dataset archive, and by default of an import: 4 GiB of
// float32. The largest set of the UCR and UEA archives is far below.
const MaxValues = 1 << 30

// ErrTooLarge is the error of data beyond a limit.
var ErrTooLarge = errors.New("data set too large")

// ErrTokens is the error of a data set that no network can read.
var ErrTokens = errors.New("holds token lists, want numeric channels: embed the tokens first")
