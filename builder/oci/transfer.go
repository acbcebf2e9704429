package oci

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
)

// transfer is one run of uploads: what has gone, and whom to tell.
type transfer struct {
	log      *slog.Logger
	progress Progress

	mu                sync.Mutex
	known             map[v1.Hash]bool
	uploaded, present int
	bytes             int64
}

func newTransfer(o copyOptions) *transfer {
	return &transfer{log: o.log, progress: o.progress, known: make(map[v1.Hash]bool)}
}

// upload stores the configurations and layers of images, several at a time.
func (r *Repository) upload(ctx context.Context, t *transfer, images ...v1.Image) error {
	var (
		missing []v1.Layer
		total   int64
	)

	for _, image := range images {
		layers, err := blobsOf(image)
		if err != nil {
			return err
		}

		for _, layer := range layers {
			size, lacking, err := r.lacks(ctx, t, layer)
			if err != nil {
				return err
			}

			if lacking {
				missing, total = append(missing, layer), total+size
			}
		}
	}

	if len(missing) == 0 {
		return nil
	}

	var bar io.WriteCloser = nopCloser{io.Discard}
	if t.progress != nil {
		bar = t.progress(r.Name(), total)
	}
	defer bar.Close()

	shown := &lockedWriter{w: bar}

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.client.jobs)

	for _, layer := range missing {
		group.Go(func() error { return r.send(ctx, t, layer, shown) })
	}

	return group.Wait()
}

// blobsOf returns the configuration and the layers of an image.
func blobsOf(image v1.Image) ([]v1.Layer, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}

	config, err := partial.ConfigLayer(image)
	if err != nil {
		return nil, fmt.Errorf("reading configuration %s: %w", manifest.Config.Digest, err)
	}

	layers := []v1.Layer{config}

	for _, descriptor := range manifest.Layers {
		if !descriptor.MediaType.IsDistributable() {
			continue // the manifest itself says where else it is
		}

		layer, err := image.LayerByDigest(descriptor.Digest)
		if err != nil {
			return nil, fmt.Errorf("reading layer %s: %w", descriptor.Digest, err)
		}

		layers = append(layers, layer)
	}

	return layers, nil
}

// lacks asks whether the repository lacks a blob that this run has not met yet.
func (r *Repository) lacks(ctx context.Context, t *transfer, layer v1.Layer) (int64, bool, error) {
	digest, err := layer.Digest()
	if err != nil {
		return 0, false, err
	}

	if t.known[digest] {
		return 0, false, nil
	}

	t.known[digest] = true

	size, err := layer.Size()
	if err != nil {
		return 0, false, err
	}

	there, err := r.hasBlob(ctx, digest)
	if err != nil {
		return 0, false, fmt.Errorf("asking for blob %s: %w", digest, explain(err))
	}

	if there {
		t.present++
	}

	return size, !there, nil
}

func (r *Repository) hasBlob(ctx context.Context, digest v1.Hash) (bool, error) {
	layer, err := r.client.puller.Layer(ctx, r.digest(digest))
	if err != nil {
		return false, err
	}

	return partial.Exists(layer)
}

// send uploads one blob. After a dropped connection it begins again: docker-registry 2.8 answers that
// it does not know the upload any more, and others want no pieces at all. Blobs that arrived stay.
func (r *Repository) send(ctx context.Context, t *transfer, layer v1.Layer, shown io.Writer) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}

	size, err := layer.Size()
	if err != nil {
		return err
	}

	t.log.Info(fmt.Sprintf("sending %s, %d bytes", digest, size))

	watched := watch(layer, shown)

	err = r.client.retries.do(ctx, func() error { return r.client.pusher.Upload(ctx, r.ref.Context(), watched) })
	if err != nil {
		return fmt.Errorf("sending blob %s: %w", digest, explain(err))
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	t.uploaded++
	t.bytes += size

	return nil
}

// watch shows what is read of a layer, each byte once however often it is sent.
func watch(layer v1.Layer, shown io.Writer) v1.Layer {
	// The library mounts what comes from another repository of the same registry.
	if mountable, ok := layer.(*remote.MountableLayer); ok {
		return &remote.MountableLayer{Layer: &watchedLayer{Layer: mountable.Layer, shown: shown}, Reference: mountable.Reference}
	}

	return &watchedLayer{Layer: layer, shown: shown}
}

type watchedLayer struct {
	v1.Layer
	shown io.Writer

	// A dropped request may still read while the next one begins.
	mu   sync.Mutex
	most int64
}

func (l *watchedLayer) Compressed() (io.ReadCloser, error) {
	content, err := l.Layer.Compressed()
	if err != nil {
		return nil, err
	}

	return &watchedReader{ReadCloser: content, layer: l}, nil
}

type watchedReader struct {
	io.ReadCloser
	layer *watchedLayer
	read  int64
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.read += int64(n)

	r.layer.mu.Lock()
	defer r.layer.mu.Unlock()

	if fresh := r.read - r.layer.most; fresh > 0 {
		r.layer.most = r.read
		_, _ = r.layer.shown.Write(p[int64(n)-fresh : n])
	}

	return n, err
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.w.Write(p)
}
