package talosimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"strings"

	"github.com/sylabs/squashfs/low/data"
	"github.com/sylabs/squashfs/low/directory"
	"github.com/sylabs/squashfs/low/inode"
)

// squashfs reads files of a squashfs image. The library decodes inodes, directories and data; what it
// would allocate on the image's word alone is checked here before, and blocks are decompressed here,
// because the library's own way unpacks them without a bound.
type squashfs struct {
	r     io.ReaderAt
	super superblock
	codec codec
}

// superblock as it lies on the disk (squashfs 4.0, little-endian).
type superblock struct {
	Magic       uint32
	InodeCount  uint32
	ModTime     uint32
	BlockSize   uint32
	FragCount   uint32
	Compression uint16
	BlockLog    uint16
	Flags       uint16
	IDCount     uint16
	Major       uint16
	Minor       uint16
	RootInode   uint64
	Size        uint64
	IDTable     uint64
	XattrTable  uint64
	InodeTable  uint64
	DirTable    uint64
	FragTable   uint64
	ExportTable uint64
}

const (
	squashfsMagic = 0x73717368
	minBlock      = 4 << 10
	maxBlock      = 1 << 20
	metadataBlock = 8 << 10
	noFragment    = 0xffffffff
	// maxDirectory bounds a directory's listing in bytes; /usr/bin of a Talos image has a few thousand.
	maxDirectory = 1 << 20
)

func openSquashfs(r io.ReaderAt) (*squashfs, error) {
	s := &squashfs{r: r}
	if err := binary.Read(io.NewSectionReader(r, 0, int64(binary.Size(s.super))), binary.LittleEndian, &s.super); err != nil {
		return nil, fmt.Errorf("reading squashfs: superblock: %w", err)
	}

	switch b := s.super.BlockSize; {
	case s.super.Magic != squashfsMagic || s.super.Major != 4 || s.super.Minor != 0:
		return nil, errors.New("reading squashfs: not squashfs 4.0")
	case b < minBlock || b > maxBlock || bits.OnesCount32(b) != 1 || bits.TrailingZeros32(b) != int(s.super.BlockLog):
		return nil, fmt.Errorf("reading squashfs: block size %d", b)
	}

	var err error
	s.codec, err = newCodec(s.super.Compression)

	return s, err
}

// errNotRegular says that a name is there, but no file.
var errNotRegular = errors.New("not a regular file")

// open returns a file's content and size. Symbolic links are not followed.
func (s *squashfs) open(name string, limit int64) (content io.Reader, size int64, err error) {
	defer guard("reading squashfs", &err)

	node, err := s.find(name)
	if err != nil {
		return nil, 0, err
	}

	file, ok := plainFile(node)
	if !ok {
		return nil, 0, errNotRegular
	}

	if file.size > uint64(limit) {
		return nil, 0, fmt.Errorf("%d bytes, more than %d", file.size, limit)
	}

	for _, size := range file.sizes {
		if size&^storedBlock > s.super.BlockSize {
			return nil, 0, fmt.Errorf("a block of %d bytes", size&^storedBlock)
		}
	}

	tail := file.size % uint64(s.super.BlockSize)
	reader := data.NewReader(s.section(file.start), s.decoder(s.super.BlockSize), file.sizes, tail, s.super.BlockSize)

	if file.fragment != noFragment {
		fragment, err := s.fragment(file.fragment, file.offset, tail)
		if err != nil {
			return nil, 0, err
		}

		reader.AddFrag(fragment)
	}

	return &guarded{newLimited(reader, int64(file.size))}, int64(file.size), nil
}

// guarded turns the library's panics over malformed data into errors.
type guarded struct{ r io.Reader }

func (g *guarded) Read(p []byte) (n int, err error) {
	defer guard("reading squashfs", &err)

	return g.r.Read(p)
}

// storedBlock marks a block that is not compressed.
const storedBlock = 1 << 24

type fileNode struct {
	start            uint64
	size             uint64
	fragment, offset uint32
	sizes            []uint32
}

func plainFile(node inode.Inode) (fileNode, bool) {
	switch f := node.Data.(type) {
	case inode.File:
		return fileNode{uint64(f.BlockStart), uint64(f.Size), f.FragInd, f.FragOffset, f.BlockSizes}, true
	case inode.EFile:
		return fileNode{f.BlockStart, f.Size, f.FragInd, f.FragOffset, f.BlockSizes}, true
	default:
		return fileNode{}, false
	}
}

// list returns the names in a directory.
func (s *squashfs) list(name string) (names []string, err error) {
	defer guard("reading squashfs", &err)

	node, err := s.find(name)
	if err != nil {
		return nil, err
	}

	entries, err := s.entries(node)
	if err != nil {
		return nil, err
	}

	for _, entry := range entries {
		names = append(names, entry.Name)
	}

	return names, nil
}

// find returns the inode that a path leads to.
func (s *squashfs) find(name string) (inode.Inode, error) {
	node, err := s.inode(s.super.RootInode>>16, uint16(s.super.RootInode))
	if err != nil {
		return inode.Inode{}, err
	}

	for part := range strings.SplitSeq(name, "/") {
		entries, err := s.entries(node)
		if err != nil {
			return inode.Inode{}, err
		}

		found := false

		for _, entry := range entries {
			if entry.Name == part {
				node, err = s.inode(uint64(entry.BlockStart), entry.Offset)
				found = true

				break
			}
		}

		if err != nil {
			return inode.Inode{}, err
		}

		if !found {
			return inode.Inode{}, fs.ErrNotExist
		}
	}

	return node, nil
}

func (s *squashfs) entries(node inode.Inode) ([]directory.Entry, error) {
	var (
		start  uint32
		offset uint16
		size   uint32
	)

	switch d := node.Data.(type) {
	case inode.Directory:
		start, offset, size = d.BlockStart, d.Offset, uint32(d.Size)
	case inode.EDirectory:
		start, offset, size = d.BlockStart, d.Offset, d.Size
	default:
		return nil, fs.ErrNotExist
	}

	// The size counts three bytes for . and .. that are not there.
	const dots = 3

	switch {
	case size <= dots:
		return nil, nil
	case size > maxDirectory:
		return nil, fmt.Errorf("a directory of %d bytes", size)
	}

	r, err := s.metadata(s.super.DirTable+uint64(start), offset)
	if err != nil {
		return nil, err
	}

	return directory.ReadDirectory(io.LimitReader(r, int64(size)), size)
}

// inode reads an inode after looking at the sizes in it.
func (s *squashfs) inode(block uint64, offset uint16) (inode.Inode, error) {
	r, err := s.metadata(s.super.InodeTable+block, offset)
	if err != nil {
		return inode.Inode{}, err
	}

	// The fixed part of each type, behind the header of 16 bytes.
	const header = 16

	fixed := make([]byte, header, header+40)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return inode.Inode{}, err
	}

	lengths := map[uint16]int{inode.Dir: 16, inode.EDir: 24, inode.Fil: 16, inode.EFil: 40}

	length, ok := lengths[binary.LittleEndian.Uint16(fixed)]
	if !ok {
		// Links and devices are of no interest.
		return inode.Inode{}, nil
	}

	fixed = fixed[:header+length]
	if _, err := io.ReadFull(r, fixed[header:]); err != nil {
		return inode.Inode{}, err
	}

	body := fixed[header:]
	size := uint64(0)

	switch binary.LittleEndian.Uint16(fixed) {
	case inode.EDir:
		// The index of a large directory, behind the fixed part, is not needed.
		binary.LittleEndian.PutUint16(body[16:], 0)
	case inode.Fil:
		size = uint64(binary.LittleEndian.Uint32(body[12:]))
	case inode.EFil:
		size = binary.LittleEndian.Uint64(body[8:])
	}

	// A list of block sizes follows, four bytes for each block of the file.
	if size > maxPart {
		return inode.Inode{}, fmt.Errorf("a file of %d bytes", size)
	}

	return inode.Read(io.MultiReader(bytes.NewReader(fixed), r), s.super.BlockSize)
}

// fragment returns the end of a file that shares a block with others.
func (s *squashfs) fragment(index, offset uint32, size uint64) (io.Reader, error) {
	const perBlock, entrySize = metadataBlock / 16, 16

	if index >= s.super.FragCount || offset > s.super.BlockSize {
		return nil, errors.New("fragment out of bounds")
	}

	var block uint64
	if err := binary.Read(s.section(s.super.FragTable+uint64(index/perBlock)*8), binary.LittleEndian, &block); err != nil {
		return nil, fmt.Errorf("fragment table: %w", err)
	}

	r, err := s.metadata(block, uint16(index%perBlock*entrySize))
	if err != nil {
		return nil, err
	}

	var entry struct {
		Start  uint64
		Size   uint32
		Unused uint32
	}

	if err := binary.Read(r, binary.LittleEndian, &entry); err != nil {
		return nil, fmt.Errorf("fragment table: %w", err)
	}

	if entry.Size&^storedBlock > s.super.BlockSize {
		return nil, fmt.Errorf("a fragment of %d bytes", entry.Size&^storedBlock)
	}

	all := data.NewReader(s.section(entry.Start), s.decoder(s.super.BlockSize), []uint32{entry.Size}, uint64(s.super.BlockSize), s.super.BlockSize)
	if _, err := io.CopyN(io.Discard, all, int64(offset)); err != nil {
		return nil, err
	}

	return io.LimitReader(all, int64(size)), nil
}

// section reads from a place on to the end of the image.
func (s *squashfs) section(start uint64) io.Reader {
	const end = 1 << 62

	return whole{io.NewSectionReader(s.r, int64(min(start, end)), end-int64(min(start, end)))}
}
