// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	secretType = corev1.SecretType("helm.sh/release.v1")
	// Key is where a record is in its Secret.
	Key = "release"

	// maxKept is how many read records and payloads an action keeps: each may have tens of megabytes. Helm reads the
	// newest and the deployed one repeatedly.
	maxKept = 2
	// pageSize is how many records one request reads, payloads included. maxPages bounds the requests: together they read
	// as many records as an observation. An API server that always reports another page must not block an action for ever.
	pageSize = 5
	maxPages = MaxObservePages * ObservePageSize / pageSize
	// WriteTries is how often a write that lost its connection is tried, if the tries fail within writeTriesTime.
	WriteTries     = 3
	writeTriesTime = 5 * time.Second
)

// Store keeps Helm's records in Secrets, byte-compatible with Helm's own driver, and reads less than that driver:
//
//   - a history, or a query by status, is the metadata of all records and the payload of the newest; the others are
//     stubs with name, version, status and labels. [Store.Get] returns whole records. If metadata and payload disagree,
//     all payloads are read, one after the other, because the records of a cluster must not fill the memory of this
//     process;
//   - the metadata may be from Observe right before the action;
//   - deletions read nothing, and responses to writes are metadata.
//
// Records that do not fit into a Secret, or that belong in a store, are split, see pointer.go.
//
// Its requests to the cluster do not end with the action but have their own deadline: the outcome of an action that ran
// out of time must still be recorded. It is safe for concurrent use.
type Store struct {
	// ctx bounds requests to the store of payloads.
	ctx       context.Context
	storage   model.Storage
	client    rest.Interface
	Metadata  metadata.ResourceInterface
	namespace string
	codec     *Codec
	// namespaces learns that the namespace exists.
	namespaces *NameSet
	// beforeCreate is called when a record is about to be created, and fits.
	beforeCreate func() error
	// observed returns the metadata of a release's records if they were observed a moment ago.
	observed func(name string) ([]metav1.PartialObjectMetadata, bool)

	mu sync.Mutex
	// listed and read cache what was read since the last write; read has only the last whole records.
	listed map[string][]metav1.PartialObjectMetadata
	read   map[string]*release.Release
	wrote  bool
	stubs  map[*release.Release]bool
	// states holds the records as this action first read, or last wrote, them. overtaken is set when another writer
	// changed one.
	states    map[string]recordState
	overtaken error
	split     splitRecords
}

var _ CarefulDriver = &Store{}

// StoreOptions are the dependencies of a store of records. All but Observed and BeforeCreate are required.
type StoreOptions struct {
	// Client and Metadata are clients of the cluster. Metadata is of Secrets in Namespace.
	Client   rest.Interface
	Metadata metadata.ResourceInterface
	// Namespace is that of the release.
	Namespace string
	// Storage is where new records are stored.
	Storage model.Storage
	// Codec and Memory are shared by all users of the cluster.
	Codec  *Codec
	Memory *PayloadMemory
	// Names holds the names of records, so that each is in memory once.
	Names *NameSet
	// Observed returns the metadata of the records of a release if they were read a moment ago.
	Observed func(release string) ([]metav1.PartialObjectMetadata, bool)
	// BeforeCreate is called before a record is created; nil if there is nothing to do.
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

		states: map[string]recordState{},
		split:  newSplitRecords(options.Memory),
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

// keepFew adds a record to those that the action keeps, and drops others beyond the bound.
func keepFew(kept map[string]*release.Release, key string, rls *release.Release) {
	if len(kept) >= maxKept {
		clear(kept)
	}
	kept[key] = rls
}

func (s *Store) decode(secret *corev1.Secret) (*release.Release, error) {
	small, err := s.codec.decode(secret.Data[Key], s.holdText)
	if err != nil {
		return nil, err
	}
	rls, err := s.resolve(secret, small)
	if err != nil {
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

// List implements driver.Queryor, as a query without a name.
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

// assemble makes releases from the metadata of records: the newest one with the status is whole, the others are stubs.
// An empty status means all. ok is false if the records differ from their metadata.
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
		case errors.Is(err, driver.ErrReleaseNotFound), errors.Is(err, errUnreadableRecord):
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

// stub returns a release from the metadata of a record, nil if the metadata is not in Helm's format.
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
		if listed, err = s.ListMetadata(Selector(name)); err != nil {
			return nil, err
		}
	}
	s.noteMetadata(listed)
	s.mu.Lock()
	s.listed[name] = listed
	s.mu.Unlock()
	return listed, nil
}

// readAll reads the records with the labels, payloads included, and keeps the newest payload. A record that cannot be
// decoded is a stub, because its Secret can still be deleted. But Helm relies on the newest record: an older one in its
// place would leave objects behind, so the newest must be readable. Split records must not be damaged, because the
// missing part may be restored.
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

// reduce makes a stub of a record that was read; nil stays nil.
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

// decodeOrStub returns a record of the release with the name, if that is known. If the record cannot be decoded, it
// returns a stub and the error.
func (s *Store) decodeOrStub(name string, secret *corev1.Secret) (*release.Release, error) {
	rls, err := s.decode(secret)
	switch {
	case !errors.Is(err, errUnreadableRecord):
		return rls, err
	case name == "":
		return nil, nil //nolint:nilnil // Helm leaves it out, too.
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

// markStub notes that a release holds no more than the metadata of its record.
func (s *Store) markStub(stub *release.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stubs[stub] = true
}

// persist carries out a repeatable write, again if the connection breaks. Helm only logs the error if it cannot mark a
// revision as superseded, and then two revisions count as deployed.
func persist(write func() error) error {
	begun := time.Now()
	for try := 1; ; try++ {
		err := write()
		if err == nil || try == WriteTries || !helmerr.IsNetworkError(err) || time.Since(begun) > writeTriesTime {
			return err
		}
	}
}

// NameOf is the name of the Secret of a revision.
func NameOf(name string, revision int) string {
	return storage.HelmStorageType + "." + name + ".v" + strconv.Itoa(revision)
}

// Selector is the label selector of all records of a release.
func Selector(name string) string {
	return kblabels.Set{model.HelmLabelOwner: "helm", model.HelmLabelName: name}.AsSelector().String()
}

// copyRelease copies what Helm changes of a release that it has read.
func copyRelease(rls *release.Release) *release.Release {
	copied := *rls
	info := *rls.Info
	copied.Info = &info
	copied.Labels = maps.Clone(rls.Labels)
	return &copied
}

// recordLabels returns the labels of a record without those of Helm and of this store.
func recordLabels(labels map[string]string) map[string]string {
	kept := withoutSystemLabels(labels)
	delete(kept, model.LabelPayload)
	return kept
}
