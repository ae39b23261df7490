// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry stores payloads of release records as artifacts in an OCI registry. Each
// artifact is a manifest with its own artifact type, one encrypted layer, and a unique tag.
//
// # Contract
//
//   - The store uses only configured repositories, because any user of a workload cluster may have written the pointers
//     there.
//   - A manifest is deleted only if it names the release whose record is deleted.
//   - A payload is read by the digest of its layer, with one request, and is not cached. The payload is missing if the
//     registry answers that it does not have the blob. The payload is not missing if the registry does not have the
//     repository, refuses the credentials or breaks the connection.
//   - If a registry refuses a deletion for a user, the store tries no deletion with this user for an hour.
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

const (
	// ArtifactType is the artifact type of the manifests.
	ArtifactType = "application/vnd.helmop.release-record.v1"
	// LayerType is the media type of their layers.
	LayerType = "application/vnd.helmop.release-record.v1+aes256gcm"

	// ClusterAnnotation is the annotation of a manifest with the "<namespace>/<name>" of the cluster. It informs users,
	// and the store checks it before a deletion.
	ClusterAnnotation = annotationPrefix + "cluster"
	// ReleaseAnnotation is the annotation with the "<namespace>/<name>" of the release.
	ReleaseAnnotation = annotationPrefix + "release"
	// RevisionAnnotation is the annotation with the Helm revision of the record.
	RevisionAnnotation = annotationPrefix + "revision"

	annotationPrefix      = "addons.cluster.x-k8s.io/"
	createdAnnotation     = "org.opencontainers.image.created"
	descriptionAnnotation = "org.opencontainers.image.description"

	// deleteUnconfirmedTimeout is the timeout for the deletion of an artifact whose push got no answer.
	deleteUnconfirmedTimeout = 10 * time.Second
	// refusalTTL is how long the store tries no deletion after a registry refused one.
	refusalTTL = time.Hour
	// maxRefusals is the largest number of recorded refusals. There is one for each repository and user.
	maxRefusals = 1024
	// maxClusterInTag is the largest number of characters of the cluster's name in a tag, so that a tag has at most 128
	// characters.
	maxClusterInTag = 24
)

// Client is the part of oci.Client that the store needs.
type Client interface {
	PreparePush(ctx context.Context, url string, access oci.Access) error
	Push(ctx context.Context, url string, access oci.Access, upload oci.Upload) (oci.Pushed, error)
	PullBlob(ctx context.Context, url string, access oci.Access, digest string, size int64) ([]byte, error)
	Fetch(ctx context.Context, url, digest string, access oci.Access) (*oci.Content, error)
	Delete(ctx context.Context, url string, access oci.Access, digest string) error
}

// Registries holds the state that the stores of all releases share. It is safe for concurrent use.
type Registries struct {
	client Client
	now    func() time.Time

	mu sync.Mutex
	// refusals holds the times at which registries refused deletions.
	refusals *lru.LRU[[sha256.Size]byte, time.Time]
}

// New returns Registries that use a client.
func New(client Client) *Registries {
	r := &Registries{client: client, now: time.Now}
	// NewLRU fails only if the size is not positive.
	r.refusals, _ = lru.NewLRU[[sha256.Size]byte, time.Time](maxRefusals, nil)
	return r
}

// Repository is a repository with payloads, and the access to it.
type Repository struct {
	// URL is "oci://host/path".
	URL string
	// Access returns the settings for requests. It is called before each request.
	Access func(ctx context.Context) (oci.Access, error)
}

// Options configure the repositories for the payloads of a release.
type Options struct {
	// Cluster is the "<namespace>/<name>" of the cluster of the release.
	Cluster string
	// New is the repository for new payloads; nil if there is none.
	New *Repository
	// Known are further repositories from which payloads are read and deleted.
	Known []Repository
}

// Store returns the store for a release. It makes no request.
func (r *Registries) Store(options Options) payload.Store {
	return &store{Registries: r, options: options}
}

type store struct {
	*Registries
	options Options
}

var _ payload.Store = &store{}

// errNone means that no repository is configured.
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
		if errors.Is(err, ocierr.ErrUnreachable) {
			s.deleteUnconfirmed(ctx, access, pushed.Digest)
		}
		return payload.Place{}, err
	}
	return payload.Place{URL: s.options.New.URL, Manifest: pushed.Digest, Digest: pushed.LayerDigest,
		Size: int64(len(data))}, nil
}

// deleteUnconfirmed deletes an artifact whose push got no answer. No record will refer to this artifact.
func (s *store) deleteUnconfirmed(ctx context.Context, access oci.Access, manifest string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteUnconfirmedTimeout)
	defer cancel()
	// If the deletion fails, the artifact remains, as after a crash of the manager.
	_ = s.client.Delete(ctx, s.options.New.URL, access, manifest)
}

func (s *store) annotations(name payload.Name) map[string]string {
	return map[string]string{
		ClusterAnnotation:     s.options.Cluster,
		ReleaseAnnotation:     releaseOf(name),
		RevisionAnnotation:    strconv.Itoa(name.Revision),
		createdAnnotation:     s.now().UTC().Format(time.RFC3339),
		descriptionAnnotation: "An encrypted part of a Helm release record. The key is in the workload cluster.",
	}
}

func releaseOf(name payload.Name) string { return name.Namespace + "/" + name.Release }

// tagOf returns the unique tag of a payload. It starts with the cluster, the release and the Helm revision, so that
// users can read it.
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
	case errors.Is(err, ocierr.ErrNoRepository):
		return nil, unknownRepositoryError(err)
	case errors.Is(err, ocierr.ErrNotFound), errors.Is(err, ocierr.ErrIntegrity),
		errors.Is(err, ocierr.ErrInvalidReference), errors.Is(err, ocierr.ErrTooLarge):
		return nil, fmt.Errorf("%w: %w", payload.ErrMissing, err)
	}
	return data, err
}

// unknownRepositoryError returns the error for a repository that the registry does not have. Either the repository was
// deleted, or the credentials have no access to it: the registry gives the same answer.
func unknownRepositoryError(err error) error {
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
	if s.refusesDeletion(key) {
		return fmt.Errorf("%w: it refused a deletion recently", payload.ErrKept)
	}
	content, err := s.client.Fetch(ctx, from.URL, place.Manifest, access)
	switch {
	case errors.Is(err, ocierr.ErrNoRepository):
		return unknownRepositoryError(err)
	case errors.Is(err, ocierr.ErrNotFound):
		return nil
	case err != nil:
		return err
	case content.ArtifactType != ArtifactType, content.Annotations[ClusterAnnotation] != s.options.Cluster,
		content.Annotations[ReleaseAnnotation] != releaseOf(name):
		return fmt.Errorf("%w: %s is not a record of this release", payload.ErrNotAllowed, place.Manifest)
	}
	err = s.client.Delete(ctx, from.URL, access, place.Manifest)
	if errors.Is(err, ocierr.ErrUnauthorized) || errors.Is(err, ocierr.ErrUnsupported) {
		s.recordRefusal(key)
		return fmt.Errorf("%w: %w", payload.ErrKept, err)
	}
	return err
}

// userOf returns a key for a repository and a user.
func userOf(url string, access oci.Access) [sha256.Size]byte {
	// Marshalling bytes and texts cannot fail.
	data, _ := json.Marshal([]any{url, access})
	return sha256.Sum256(data)
}

func (r *Registries) refusesDeletion(key [sha256.Size]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.refusals.Get(key)
	return ok && r.now().Sub(at) < refusalTTL
}

func (r *Registries) recordRefusal(key [sha256.Size]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals.Add(key, r.now())
}
