// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kblabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
)

const (
	secretType = corev1.SecretType("helm.sh/release.v1")
	// Key is the key of a record in the data of its Secret.
	Key = "release"

	// maxKept is the number of records and payloads that an action caches: each may have tens of megabytes. Helm reads the
	// newest and the deployed record repeatedly.
	maxKept = 2
	// pageSize is the number of records per request, if the request reads payloads.
	pageSize = 5
	// maxPages bounds the requests that read all records. Together, they read as many records as an observation. An API
	// server that always reports another page must not block an action forever.
	maxPages = MaxObservePages * ObservePageSize / pageSize
	// WriteTries is the maximum number of attempts at a write that lost its connection.
	WriteTries = 3
	// writeTriesTime is the time after which a failed write is not repeated.
	writeTriesTime = 5 * time.Second
)

// Store stores Helm's records in Secrets, byte-compatible with Helm's own driver. It reads less than Helm's driver:
//
//   - A history, or a query by status, consists of the metadata of all records and the payload of the newest. The other
//     records are stubs with name, version, status and labels. [Store.Get] returns whole records. If metadata and
//     payload do not agree, Store reads all payloads, one after the other: the records of a cluster must not fill the
//     memory of this process.
//   - The metadata may come from the call of Observe right before the action.
//   - Deletions read nothing. Responses to writes contain only metadata.
//
// Records that do not fit into a Secret, or that must be in a store, are split, see pointer.go.
//
// Requests to the cluster do not end with the action. They have their own deadline, because the result of an action
// that timed out must still be recorded. A Store is safe for concurrent use.
type Store struct {
	// ctx bounds requests to the store of payloads.
	ctx       context.Context
	storage   model.Storage
	client    rest.Interface
	Metadata  metadata.ResourceInterface
	namespace string
	codec     *recordcodec.Codec
	// Memory is the memory of the action; nil if there is no bound.
	Memory *actionmemory.Lease
	// namespaces holds the namespaces that are known to exist. The Store adds its own after it created a record.
	namespaces *NameSet
	// beforeCreate is called before a record or its payload is created, after the size of the record was checked.
	beforeCreate func() error
	// observed returns the metadata of a release's records if they were observed a moment ago.
	observed func(name string) ([]metav1.PartialObjectMetadata, bool)

	mu sync.Mutex
	// listed caches the metadata that was read since the last write, by the name of the release.
	listed map[string][]metav1.PartialObjectMetadata
	// read caches the last whole records that were read since the last write.
	read map[string]*release.Release
	// wrote means that this action wrote a record.
	wrote bool
	// ahead is how far the clock of this manager is ahead of the API server. knowsAhead is true after a write that showed
	// the time of the API server.
	ahead      time.Duration
	knowsAhead bool
	// stubs holds the releases for which only the metadata of their records is known.
	stubs map[*release.Release]bool
	// states holds the state of each record when this action first read it, or last wrote it.
	states map[string]recordState
	// uids holds the UIDs of the records in the last lists.
	uids map[string]types.UID
	// overtaken is the error that is set after another writer changed a record.
	overtaken error
	// last is the key of the record that an uninstallation deletes last; empty if records are deleted one by one. before
	// holds the keys of the records that are deleted together right before it.
	last   string
	before []string
	split  splitRecords
	// changes are the changes of this action, see [Store.Changes].
	changes changes
	// largest is the estimated memory for the largest payload of the action, in bytes.
	largest int64
}

var _ CarefulDriver = &Store{}

// StoreOptions are the dependencies of a Store. All but Observed and BeforeCreate are required.
type StoreOptions struct {
	// Client is a client of the cluster.
	Client rest.Interface
	// Metadata is a client for the metadata of Secrets in Namespace.
	Metadata metadata.ResourceInterface
	// Namespace is the namespace of the release.
	Namespace string
	// Storage defines where new records are stored.
	Storage model.Storage
	// Codec is shared by all users of the cluster.
	Codec *recordcodec.Codec
	// Names holds the namespaces of the cluster that are known to exist.
	Names *NameSet
	// Observed returns the metadata of the records of a release if they were read a moment ago.
	Observed func(release string) ([]metav1.PartialObjectMetadata, bool)
	// BeforeCreate is called before a record or its payload is created; nil if there is nothing to do.
	BeforeCreate func() error
}

// NewStore returns the store of Helm's records in a namespace.
func NewStore(ctx context.Context, options StoreOptions) *Store {
	s := &Store{
		ctx:          ctx,
		storage:      options.Storage,
		client:       options.Client,
		Metadata:     options.Metadata,
		namespace:    options.Namespace,
		codec:        options.Codec,
		namespaces:   options.Names,
		beforeCreate: options.BeforeCreate,
		observed:     options.Observed,

		listed: map[string][]metav1.PartialObjectMetadata{},
		read:   map[string]*release.Release{},
		stubs:  map[*release.Release]bool{},

		states:  map[string]recordState{},
		uids:    map[string]types.UID{},
		split:   newSplitRecords(),
		changes: changes{records: map[types.UID]*model.Record{}},
	}
	if s.beforeCreate == nil {
		s.beforeCreate = func() error { return nil }
	}
	if s.observed == nil {
		s.observed = func(string) ([]metav1.PartialObjectMetadata, bool) { return nil, false }
	}
	return s
}

// Name implements driver.Driver.
func (s *Store) Name() string { return driver.SecretsDriverName }

// Get implements driver.Queryor.
func (s *Store) Get(key string) (*release.Release, error) {
	s.mu.Lock()
	known, ok := s.read[key]
	s.mu.Unlock()
	if ok {
		return copyRelease(known), nil
	}
	secret, err := s.readSecret(key)
	if apierrors.IsNotFound(err) {
		return nil, driver.ErrReleaseNotFound
	}
	if err != nil {
		return nil, err
	}
	rls, err := s.decode(secret)
	if err != nil {
		return nil, errUnread(key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keepFew(s.read, key, copyRelease(rls))
	return rls, nil
}

// keepFew adds a record to the cached records. It first drops all others if there are maxKept.
func keepFew(kept map[string]*release.Release, key string, rls *release.Release) {
	if len(kept) >= maxKept {
		clear(kept)
	}
	kept[key] = rls
}

// decode returns the whole release in the Secret of a record, and stores the state of the record.
func (s *Store) decode(secret *corev1.Secret) (*release.Release, error) {
	defer s.rest()
	small, err := s.codec.Decode(secret.Data[Key], s.holdText)
	if err != nil {
		return nil, err
	}
	rls, err := s.resolve(secret, small)
	if err != nil {
		return nil, err
	}
	if err := s.checkAliases(rls); err != nil {
		return nil, err
	}
	rls.Labels = recordLabels(secret.Labels)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.states[secret.Name]; !ok {
		s.states[secret.Name] = stateOf(secret, secret.ResourceVersion)
	}
	return rls, nil
}

// List implements driver.Queryor. It reads all records of the namespace.
func (s *Store) List(filter func(*release.Release) bool) ([]*release.Release, error) {
	all, err := s.readAll(map[string]string{model.HelmLabelOwner: "helm"})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []*release.Release
	for _, rls := range all {
		if filter(rls) {
			list = append(list, rls)
		}
	}
	return list, nil
}

// Query implements driver.Queryor.
func (s *Store) Query(labels map[string]string) ([]*release.Release, error) {
	rest := maps.Clone(labels)
	name, status := rest[model.HelmLabelName], rest[model.HelmLabelStatus]
	delete(rest, model.HelmLabelName)
	delete(rest, model.HelmLabelStatus)
	if name == "" || len(rest) != 1 || rest[model.HelmLabelOwner] != "helm" {
		return s.readAll(labels)
	}
	objects, err := s.History(name)
	if err != nil {
		return nil, err
	}
	list, ok, err := s.assemble(name, status, objects)
	if err != nil {
		return nil, err
	}
	if !ok {
		return s.readAll(labels)
	}
	if len(list) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return list, nil
}

// assemble returns the releases with a status from the metadata of records. The newest release is complete, and the
// others are stubs. An empty status means any status. ok is false if the newest record differs from its metadata.
func (s *Store) assemble(name, status string,
	objects []metav1.PartialObjectMetadata,
) (list []*release.Release, ok bool, err error) {
	newest := 0
	for i := range objects {
		stub := s.stub(name, &objects[i])
		if stub == nil {
			return nil, false, nil
		}
		if status == "" || string(stub.Info.Status) == status {
			newest = max(newest, stub.Version)
			list = append(list, stub)
		}
	}
	for i, stub := range list {
		if stub.Version != newest {
			s.markStub(stub)
			continue
		}
		whole, err := s.Get(NameOf(name, stub.Version))
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound), errors.Is(err, recordcodec.ErrUnreadable):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		case whole.Name != name || whole.Version != stub.Version || whole.Info.Status != stub.Info.Status:
			return nil, false, nil
		}
		list[i] = whole
	}
	return list, true, nil
}

// stub returns a release with the metadata of a record; nil if the metadata is not in Helm's format.
func (s *Store) stub(name string, object *metav1.PartialObjectMetadata) *release.Release {
	revision, err := strconv.Atoi(object.Labels[model.HelmLabelVersion])
	status := release.Status(object.Labels[model.HelmLabelStatus])
	if err != nil || revision <= 0 || status == "" || object.Name != NameOf(name, revision) {
		return nil
	}
	return &release.Release{
		Name: name, Namespace: s.namespace, Version: revision,
		Info: &release.Info{Status: status}, Labels: recordLabels(object.Labels),
	}
}

// History returns the metadata of all records of a release.
func (s *Store) History(name string) ([]metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	listed, ok := s.listed[name]
	wrote := s.wrote
	s.mu.Unlock()
	if ok {
		return listed, nil
	}
	if !wrote {
		listed, ok = s.observed(name)
	}
	if !ok {
		var err error
		if listed, err = s.listTogether(name); err != nil {
			return nil, err
		}
	}
	s.noteMetadata(listed)
	s.mu.Lock()
	s.listed[name] = listed
	s.mu.Unlock()
	return listed, nil
}

// AssumeNone makes History return, without a request, that a release has no records, until the first write or until
// Refresh.
func (s *Store) AssumeNone(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed[name] = nil
}

// listTogether returns the metadata of all records of a release. It also stores whether the release has parts of
// payloads.
func (s *Store) listTogether(name string) ([]metav1.PartialObjectMetadata, error) {
	objects, err := s.ListMetadata(kblabels.Set{model.HelmLabelName: name}.AsSelector().String())
	if err != nil {
		return nil, err
	}
	hasParts := slices.ContainsFunc(objects, func(object metav1.PartialObjectMetadata) bool {
		return object.Labels[LabelChunkOf] == name
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.hasNoParts = !hasParts
	return slices.DeleteFunc(objects, func(object metav1.PartialObjectMetadata) bool {
		return object.Labels[model.HelmLabelOwner] != "helm"
	}), nil
}

// readAll reads the records with the labels, including payloads, and returns the newest record whole. The others are
// stubs, including records that cannot be decoded, because their Secrets can still be deleted. The newest record must
// be readable: if an older record took its place, Helm would not delete all objects. A damaged split record is an
// error, because its missing part may still be restored.
func (s *Store) readAll(labels map[string]string) ([]*release.Release, error) {
	var list []*release.Release
	var newest *release.Release
	var unread error
	read := 0
	options := metav1.ListOptions{LabelSelector: kblabels.Set(labels).AsSelector().String(), Limit: pageSize}
	for page := 0; page == 0 || options.Continue != ""; page++ {
		if page == maxPages {
			return nil, ErrTooMany
		}
		secrets := &corev1.SecretList{}
		err := s.client.Get().Namespace(s.namespace).Resource("secrets").VersionedParams(&options, scheme.ParameterCodec).
			Do(context.Background()).Into(secrets)
		if err != nil {
			return nil, fmt.Errorf("reading the release records: %w", err)
		}
		options.Continue = secrets.Continue
		read += len(secrets.Items)
		for i := range secrets.Items {
			rls, err := s.decodeOrStub(labels[model.HelmLabelName], &secrets.Items[i])
			switch {
			case rls == nil && err != nil:
				return nil, err
			case rls == nil:
				continue
			case newest == nil || rls.Version > newest.Version:
				s.reduce(newest)
				newest, unread = rls, err
			default:
				s.reduce(rls)
			}
			list = append(list, rls)
		}
	}
	if read == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	if unread != nil {
		return nil, unread
	}
	return list, nil
}

// reduce converts a complete record to a stub. It ignores nil.
func (s *Store) reduce(rls *release.Release) {
	if rls == nil {
		return
	}
	*rls = release.Release{
		Name: rls.Name, Namespace: rls.Namespace, Version: rls.Version, Info: &release.Info{Status: rls.Info.Status},
		Labels: rls.Labels,
	}
	s.markStub(rls)
}

// decodeOrStub returns the record in a Secret. If the record cannot be decoded, it returns a stub and the error. If
// name is empty, it returns nil for such a record.
func (s *Store) decodeOrStub(name string, secret *corev1.Secret) (*release.Release, error) {
	rls, err := s.decode(secret)
	switch {
	case !errors.Is(err, recordcodec.ErrUnreadable):
		return rls, err
	case name == "":
		return nil, nil //nolint:nilnil // Helm skips such a record, too.
	}
	stub := s.stub(name, &metav1.PartialObjectMetadata{ObjectMeta: secret.ObjectMeta})
	if stub != nil {
		s.markStub(stub)
	}
	return stub, errUnread(secret.Name, err)
}

func errUnread(key string, err error) error {
	return fmt.Errorf("the release record %q cannot be read: %w", key, err)
}

// markStub stores that a release has only the metadata of its record.
func (s *Store) markStub(stub *release.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stubs[stub] = true
}

// persist carries out a repeatable write. It repeats the write if the connection breaks. Otherwise, two revisions could
// count as deployed: if Helm cannot mark a revision as superseded, it only logs the error.
func persist(write func() error) error {
	begun := time.Now()
	for try := 1; ; try++ {
		err := write()
		if err == nil || try == WriteTries || !helmerr.IsNetworkError(err) || time.Since(begun) > writeTriesTime {
			return err
		}
	}
}

// NameOf returns the name of the Secret of a revision.
func NameOf(name string, revision int) string {
	return storage.HelmStorageType + "." + name + ".v" + strconv.Itoa(revision)
}

// SelectorOfAll is the label selector for the records of all releases.
const SelectorOfAll = model.HelmLabelOwner + "=helm"

// Selector returns the label selector for all records of a release.
func Selector(name string) string {
	return kblabels.Set{model.HelmLabelOwner: "helm", model.HelmLabelName: name}.AsSelector().String()
}

// copyRelease copies a release and the fields that Helm changes in it.
func copyRelease(rls *release.Release) *release.Release {
	copied := *rls
	info := *rls.Info
	copied.Info = &info
	copied.Labels = maps.Clone(rls.Labels)
	return &copied
}

// recordLabels returns the labels of a record without Helm's own labels and without [model.LabelPayload].
func recordLabels(labels map[string]string) map[string]string {
	kept := withoutSystemLabels(labels)
	delete(kept, model.LabelPayload)
	return kept
}
