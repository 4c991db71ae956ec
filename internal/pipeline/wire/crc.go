package wire

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC is the CRC-32C of a payload, for the optional header HeaderCRC. Arrow has no
// checksum: about one damaged message in ten still decodes, to other values.
func CRC(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }
