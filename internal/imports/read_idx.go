package imports

import (
	"encoding/binary"
	"io"
	"strconv"
	"strings"
)

// The supported idx types: unsigned bytes, three dimensions or one.
const (
	idxImages = 0x00000803
	idxLabels = 0x00000801
)

// maxPixels bounds one image; MNIST has 784.
const maxPixels = 1 << 24

// readIDXImages reads an idx file of images (MNIST): each becomes a series of one
// channel, a pixel per step in reading order, bytes scaled from 0..255 to 0..1. A
// separate file has the labels.
func readIDXImages(src *source) (*part, error) {
	var dims [3]uint32
	if err := idxHeader(src, idxImages, dims[:]); err != nil {
		return nil, err
	}
	pixels := uint64(dims[1]) * uint64(dims[2])
	if dims[0] == 0 || pixels == 0 || pixels > maxPixels {
		return nil, src.errorf("the header claims %d images of %d x %d pixels, want at least one and at most %d pixels", dims[0], dims[1], dims[2], maxPixels)
	}
	p := &part{channels: 1, labeled: true}
	image := make([]byte, pixels)
	for i := range dims[0] {
		if _, err := io.ReadFull(src.in, image); err != nil {
			return nil, idxShort(src, err, i, dims[0], "images")
		}
		if err := src.reserve(len(image)); err != nil {
			return nil, err
		}
		values := make([]float32, pixels)
		for k, b := range image {
			values[k] = float32(b) / 255
		}
		p.series = append(p.series, rawSeries{values: values})
	}
	return p, idxEnd(src)
}

// readIDXLabels reads the labels of p's images.
func readIDXLabels(src *source, p *part) error {
	var count [1]uint32
	if err := idxHeader(src, idxLabels, count[:]); err != nil {
		return err
	}
	if int(count[0]) != len(p.series) {
		return src.errorf("%d labels for %d images, want equal numbers", count[0], len(p.series))
	}
	for i := range p.series {
		b, err := src.in.ReadByte()
		if err != nil {
			return idxShort(src, err, uint32(i), count[0], "labels")
		}
		p.series[i].label = strconv.Itoa(int(b))
	}
	return idxEnd(src)
}

// idxHeader reads the magic number and the sizes, all 32-bit big-endian.
func idxHeader(src *source, magic uint32, dims []uint32) error {
	head := make([]uint32, 1+len(dims))
	if err := binary.Read(src.in, binary.BigEndian, head); err != nil {
		return src.errorf("the header is cut off: %w", err)
	}
	if head[0] != magic {
		return src.errorf("magic number %#08x, want %#08x", head[0], magic)
	}
	copy(dims, head[1:])
	return nil
}

func idxShort(src *source, err error, have, want uint32, what string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return src.errorf("the file ends after %d of %d %s: it is truncated, fetch it again", have, want, what)
	}
	return src.wrapError(err)
}

func idxEnd(src *source) error {
	switch _, err := src.in.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return src.errorf("bytes follow after the last entry the header claims")
	default:
		return src.wrapError(err)
	}
}

// idxLabelPath returns the label file of an image file, in the same folder.
func idxLabelPath(images string) string {
	return strings.NewReplacer("images-idx3", "labels-idx1", "images.idx3", "labels.idx1").Replace(images)
}
