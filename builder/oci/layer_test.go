package oci_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/cache"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/rootfs"
)

var epoch = time.Unix(0, 0).UTC()

// pluginTree is a small tree with a few real plugins.
func pluginTree(t *testing.T, arch string, names ...string) *rootfs.Tree {
	t.Helper()

	set, tree := buildertest.Plugins(t, arch), &rootfs.Tree{}

	for _, name := range names {
		file := set.Files[name]
		if err := tree.Add("opt/cni/bin/"+name, 0o755, rootfs.File(file.Path, file.Digest, file.Size)); err != nil {
			t.Fatal(err)
		}
	}

	if err := tree.Add("manifest.yaml", 0o644, rootfs.Bytes([]byte("version: v1alpha1\n"))); err != nil {
		t.Fatal(err)
	}

	if err := tree.AddParents(); err != nil {
		t.Fatal(err)
	}

	return tree
}

// countingCache counts how many layers had to be made.
type countingCache struct {
	builder.FileCache
	made atomic.Int32
}

func newCache(t *testing.T) *countingCache {
	t.Helper()

	return &countingCache{FileCache: builder.FileCache{Cache: cache.New(t.TempDir(), cache.DefaultLimit)}}
}

func (c *countingCache) LayerFile(ctx context.Context, key string, fill func(context.Context, string) (string, error)) (string, string, string, int64, error) {
	return c.FileCache.LayerFile(ctx, key, func(ctx context.Context, path string) (string, error) {
		c.made.Add(1)

		return fill(ctx, path)
	})
}

func pack(t *testing.T, tree *rootfs.Tree, compression oci.Compression, options ...oci.LayerOption) *oci.Layer {
	t.Helper()

	layer, err := oci.NewPacker(newCache(t), 1).Layer(t.Context(), tree, epoch, compression, options...)
	if err != nil {
		t.Fatal(err)
	}

	return layer
}

func read(t *testing.T, open func() (io.ReadCloser, error)) []byte {
	t.Helper()

	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

func sha(data []byte) v1.Hash {
	sum := sha256.Sum256(data)

	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

func TestLayer(t *testing.T) {
	t.Parallel()

	tree := pluginTree(t, "amd64", "host-local", "static")

	var plain bytes.Buffer
	if err := tree.WriteTar(t.Context(), &plain, epoch); err != nil {
		t.Fatal(err)
	}

	for compression, test := range map[oci.Compression]struct {
		mediaType types.MediaType
		begins    string
		// fraction of the plain size that the layer may have.
		fraction float64
	}{
		oci.Zstd: {types.OCILayerZStd, "\x28\xb5\x2f\xfd", 0.4},
		oci.Gzip: {types.OCILayer, "\x1f\x8b", 0.5},
		oci.None: {types.OCIUncompressedLayer, "manifest.yaml", 1},
	} {
		t.Run(string(compression), func(t *testing.T) {
			t.Parallel()

			layer := pack(t, tree, compression)
			compressed := read(t, layer.Compressed)

			if mediaType, err := layer.MediaType(); err != nil || mediaType != test.mediaType {
				t.Errorf("media type is %s: %v", mediaType, err)
			}

			if digest, err := layer.Digest(); err != nil || digest != sha(compressed) {
				t.Errorf("digest is %s: %v", digest, err)
			}

			if diffID, err := layer.DiffID(); err != nil || diffID != sha(plain.Bytes()) {
				t.Errorf("diff ID is %s: %v", diffID, err)
			}

			if size, err := layer.Size(); err != nil || size != int64(len(compressed)) {
				t.Errorf("size is %d: %v", size, err)
			}

			if !bytes.Equal(read(t, layer.Uncompressed), plain.Bytes()) {
				t.Error("uncompressed it is another tar")
			}

			if !bytes.HasPrefix(compressed, []byte(test.begins)) || float64(len(compressed)) > float64(plain.Len())*test.fraction {
				t.Errorf("%d of %d bytes, beginning with %q", len(compressed), plain.Len(), compressed[:4])
			}

			// Another cache, so that nothing but the input decides.
			if again := read(t, pack(t, pluginTree(t, "amd64", "static", "host-local"), compression).Compressed); !bytes.Equal(compressed, again) {
				t.Error("packing again gives other bytes")
			}
		})
	}
}

// TestWindow: similar programs compress against each other only when the window spans them.
func TestWindow(t *testing.T) {
	t.Parallel()

	tree := pluginTree(t, "amd64", "host-local", "static")

	size := func(options ...oci.LayerOption) int64 {
		size, err := pack(t, tree, oci.Zstd, options...).Size()
		if err != nil {
			t.Fatal(err)
		}

		return size
	}

	if wide, narrow := size(), size(oci.WithWindow(1<<20)); wide > narrow*3/4 {
		t.Errorf("%d bytes with the usual window, %d with a narrow one", wide, narrow)
	}
}

func TestLayersAreMadeOnce(t *testing.T) {
	t.Parallel()

	layers := newCache(t)
	packer := oci.NewPacker(layers, 2)
	tree := &rootfs.Tree{}

	if err := tree.Add("a", 0o644, rootfs.Bytes([]byte("x"))); err != nil {
		t.Fatal(err)
	}

	made := func(when time.Time, compression oci.Compression, options ...oci.LayerOption) int32 {
		before := layers.made.Load()

		if _, err := packer.Layer(t.Context(), tree, when, compression, options...); err != nil {
			t.Fatal(err)
		}

		return layers.made.Load() - before
	}

	later := epoch.Add(time.Hour)

	for i, got := range []int32{
		made(epoch, oci.Gzip), made(epoch, oci.Zstd), made(epoch, oci.None), made(later, oci.Gzip), made(epoch, oci.Zstd, oci.WithWindow(1<<20)),
	} {
		if got != 1 {
			t.Errorf("call %d made %d layers", i, got)
		}
	}

	if got := made(later.In(time.FixedZone("elsewhere", 3600)), oci.Gzip) + made(epoch, oci.Zstd); got != 0 {
		t.Errorf("%d layers were made again", got)
	}
}

func TestPackConcurrently(t *testing.T) {
	t.Parallel()

	layers := newCache(t)
	packer := oci.NewPacker(layers, 0) // at least one

	var group sync.WaitGroup

	for i := range 8 {
		group.Go(func() {
			tree := &rootfs.Tree{}
			if err := tree.Add("a", 0o644, rootfs.Bytes([]byte{byte(i / 2)})); err != nil {
				t.Error(err)
			}

			if _, err := packer.Layer(t.Context(), tree, epoch, oci.Gzip); err != nil {
				t.Error(err)
			}
		})
	}

	group.Wait()
}

func TestPackFails(t *testing.T) {
	t.Parallel()

	tree := &rootfs.Tree{}
	if err := tree.Add("a", 0o644, rootfs.File("/nonexistent", "", 1)); err != nil {
		t.Fatal(err)
	}

	packer := oci.NewPacker(newCache(t), 1)

	if _, err := packer.Layer(t.Context(), tree, epoch, oci.Gzip); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file that is gone: error is %v", err)
	}

	if _, err := packer.Layer(t.Context(), tree, epoch, "xz"); err == nil || err.Error() != `unknown compression "xz"` {
		t.Errorf("unknown compression: error is %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := packer.Layer(ctx, &rootfs.Tree{}, epoch, oci.Gzip); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: error is %v", err)
	}
}
