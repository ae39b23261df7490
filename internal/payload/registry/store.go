// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry keeps payloads of release records as artifacts in an OCI registry: one manifest of an artifact type
// of its own with one layer, which is encrypted, and a tag that nothing else has.
//
// # Contract
//
//   - Only repositories that are configured are written to, read from or deleted from: what a pointer in a workload
//     cluster says may be anybody's word.
//   - Nothing is deleted that does not say, in its own manifest, that it is a payload of the very release whose record
//     is deleted.
//   - A payload is read by the digest of its layer, by one request, and is not kept. It is missing where the registry
//     says that it does not have it, not where the registry does not know the repository, does not accept the
//     credentials or breaks off.
//   - Where a registry does not let a user delete, that user does not ask again for an hour.
package registry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

const (
	// ArtifactType is that of the manifests.
	ArtifactType = "application/vnd.helmop.release-record.v1"
	// LayerType is that of their layers.
	LayerType = "application/vnd.helmop.release-record.v1+aes256gcm"

	// ClusterAnnotation has the "<namespace>/<name>" of the cluster on a manifest, for people and for a look before it is
	// deleted.
	ClusterAnnotation = annotationPrefix + "cluster"
	// ReleaseAnnotation has the "<namespace>/<name>" of the release.
	ReleaseAnnotation = annotationPrefix + "release"
	// RevisionAnnotation has Helm's number of the record.
	RevisionAnnotation = annotationPrefix + "revision"

	annotationPrefix    = "addons.cluster.x-k8s.io/"
	createdAnnotation   = "org.opencontainers.image.created"
	describedAnnotation = "org.opencontainers.image.description"

	// withdrawTimeout is how long a registry that has just not answered may take to delete what it may have got.
	withdrawTimeout = 10 * time.Second
	// refusalMemory is how long a registry that does not delete is not asked to.
	refusalMemory = time.Hour
	// maxRefusals bounds the repositories and users of which that is remembered.
	maxRefusals = 1024
	// maxClusterInTag keeps tags below the 128 characters that they may have.
	maxClusterInTag = 24
)

// Client speaks to registries.
type Client interface {
	PreparePush(ctx context.Context, url string, access oci.Access) error
	Push(ctx context.Context, url string, access oci.Access, upload oci.Upload) (oci.Pushed, error)
	PullBlob(ctx context.Context, url string, access oci.Access, digest string, size int64) ([]byte, error)
	Fetch(ctx context.Context, url, digest string, access oci.Access) (*oci.Content, error)
	Delete(ctx context.Context, url string, access oci.Access, digest string) error
}

// Registries is what the stores of all releases share. It is safe for concurrent use.
type Registries struct {
	client Client
	now    func() time.Time

	mu sync.Mutex
	// refusals tell since when a registry is known not to delete.
	refusals *lru.LRU[[sha256.Size]byte, time.Time]
}

// New returns Registries that speak to registries by a client.
func New(client Client) *Registries {
	r := &Registries{client: client, now: time.Now}
	// It fails only if the size is not positive.
	r.refusals, _ = lru.NewLRU[[sha256.Size]byte, time.Time](maxRefusals, nil)
	return r
}

// Repository is a repository that keeps payloads, and how to reach it.
type Repository struct {
	// URL is "oci://host/path".
	URL string
	// Access reads how to reach it. It is called when the registry is to be asked.
	Access func(ctx context.Context) (oci.Access, error)
}

// Options tell where the payloads of a release are.
type Options struct {
	// Cluster is the "<namespace>/<name>" of the cluster of the release.
	Cluster string
	// New is where new payloads go; nil if they go nowhere.
	New *Repository
	// Known are those from which payloads are read, and deleted, beside New.
	Known []Repository
}

// Store returns the store of a release. It asks nobody.
func (r *Registries) Store(options Options) payload.Store {
	return &store{Registries: r, options: options}
}

type store struct {
	*Registries
	options Options
}

var _ payload.Store = &store{}

// errNone says that there is no repository.
var errNone = errors.New("no registry for release records is configured; set spec.storage.registry or the manager's " +
	"--record-storage-url")

// Prepare implements payload.Store.
func (s *store) Prepare(ctx context.Context) error {
	if s.options.New == nil {
		return errNone
	}
	access, err := s.options.New.Access(ctx)
	if err != nil {
		return err
	}
	return s.client.PreparePush(ctx, s.options.New.URL, access)
}

// Put implements payload.Store.
func (s *store) Put(ctx context.Context, name payload.Name, data []byte) (payload.Place, error) {
	if s.options.New == nil {
		return payload.Place{}, errNone
	}
	access, err := s.options.New.Access(ctx)
	if err != nil {
		return payload.Place{}, err
	}
	pushed, err := s.client.Push(ctx, s.options.New.URL, access, oci.Upload{
		Tag: tagOf(s.options.Cluster, name), ArtifactType: ArtifactType, LayerType: LayerType, Layer: data,
		Annotations: s.annotations(name),
	})
	if err != nil {
		if errors.Is(err, oci.ErrUnreachable) {
			s.withdraw(ctx, access, pushed.Digest)
		}
		return payload.Place{}, err
	}
	return payload.Place{URL: s.options.New.URL, Manifest: pushed.Digest, Digest: pushed.LayerDigest,
		Size: int64(len(data))}, nil
}

// withdraw deletes what may have been pushed although there was no answer: nothing is going to name it.
func (s *store) withdraw(ctx context.Context, access oci.Access, manifest string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	// Where that fails, it stays, as where this process ends right now.
	_ = s.client.Delete(ctx, s.options.New.URL, access, manifest)
}

func (s *store) annotations(name payload.Name) map[string]string {
	return map[string]string{
		ClusterAnnotation:   s.options.Cluster,
		ReleaseAnnotation:   releaseOf(name),
		RevisionAnnotation:  strconv.Itoa(name.Revision),
		createdAnnotation:   s.now().UTC().Format(time.RFC3339),
		describedAnnotation: "A part of a record of Helm, encrypted; its key is in the workload cluster.",
	}
}

func releaseOf(name payload.Name) string { return name.Namespace + "/" + name.Release }

// tagOf returns the tag of a payload, which no other artifact has. For people, it begins with the cluster, the release
// and the revision.
func tagOf(cluster string, name payload.Name) string {
	short := cluster[strings.LastIndexByte(cluster, '/')+1:]
	return fmt.Sprintf("%s.%s.v%d.%s", short[:min(len(short), maxClusterInTag)], name.Release, name.Revision, name.ID)
}

// repository returns the configured repository with a URL.
func (s *store) repository(url string) (*Repository, error) {
	if s.options.New != nil && s.options.New.URL == url {
		return s.options.New, nil
	}
	i := slices.IndexFunc(s.options.Known, func(r Repository) bool { return r.URL == url })
	if i < 0 {
		return nil, fmt.Errorf("%w: this repository is not configured for release records; if it was before, add it to "+
			"spec.storage.formerURLs", payload.ErrNotAllowed)
	}
	return &s.options.Known[i], nil
}

// Get implements payload.Store.
func (s *store) Get(ctx context.Context, place payload.Place) ([]byte, error) {
	from, err := s.repository(place.URL)
	if err != nil {
		return nil, err
	}
	access, err := from.Access(ctx)
	if err != nil {
		return nil, err
	}
	data, err := s.client.PullBlob(ctx, from.URL, access, place.Digest, place.Size)
	switch {
	case errors.Is(err, oci.ErrNoRepository):
		return nil, hiddenError(err)
	case errors.Is(err, oci.ErrNotFound), errors.Is(err, oci.ErrIntegrity), errors.Is(err, oci.ErrInvalidReference),
		errors.Is(err, oci.ErrTooLarge):
		return nil, fmt.Errorf("%w: %w", payload.ErrMissing, err)
	}
	return data, err
}

// hiddenError says that a repository, which had a payload, is not there any more, or not for these credentials: nobody
// can tell.
func hiddenError(err error) error {
	return fmt.Errorf("%w (check that the credentials may still pull from it)", err)
}

// Delete implements payload.Store.
func (s *store) Delete(ctx context.Context, place payload.Place, name payload.Name) error {
	from, err := s.repository(place.URL)
	if err != nil {
		return err
	}
	access, err := from.Access(ctx)
	if err != nil {
		return err
	}
	key := userOf(from.URL, access)
	if s.refuses(key) {
		return fmt.Errorf("%w: it refused a deletion recently", payload.ErrKept)
	}
	content, err := s.client.Fetch(ctx, from.URL, place.Manifest, access)
	switch {
	case errors.Is(err, oci.ErrNoRepository):
		return hiddenError(err)
	case errors.Is(err, oci.ErrNotFound):
		return nil
	case err != nil:
		return err
	case content.ArtifactType != ArtifactType, content.Annotations[ClusterAnnotation] != s.options.Cluster,
		content.Annotations[ReleaseAnnotation] != releaseOf(name):
		return fmt.Errorf("%w: %s is not a record of this release", payload.ErrNotAllowed, place.Manifest)
	}
	err = s.client.Delete(ctx, from.URL, access, place.Manifest)
	if errors.Is(err, oci.ErrUnauthorized) || errors.Is(err, oci.ErrUnsupported) {
		s.refused(key)
		return fmt.Errorf("%w: %w", payload.ErrKept, err)
	}
	return err
}

// userOf stands for a repository and who asks.
func userOf(url string, access oci.Access) [sha256.Size]byte {
	// Bytes and texts always marshal.
	data, _ := json.Marshal([]any{url, access})
	return sha256.Sum256(data)
}

func (r *Registries) refuses(key [sha256.Size]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.refusals.Get(key)
	return ok && r.now().Sub(at) < refusalMemory
}

func (r *Registries) refused(key [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals.Add(key, r.now())
}
