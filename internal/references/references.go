// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

const (
	// trustedRootKey is the key with the trusted root in the Secret of trustedRootSecretRef.
	trustedRootKey = "trusted_root.json"

	// trustPolicyKey is the key with the trust policy in the Secret for notation.
	trustPolicyKey = "trustpolicy.json"
)

const (
	// defaultBytes bounds each of the two caches of contents, in bytes. Kubernetes limits each object to 1 MiB, and most
	// are below 1 KiB. With more contents, some are read again on each use.
	defaultBytes = 8 << 20
)

// ErrReferenceNotFound means that an object that a HelmOp refers to, or a key in it, does not
// exist.
var ErrReferenceNotFound = errors.New("not found")

// ErrKeyNotFound is the ErrReferenceNotFound of an object that exists and does not have the key.
var ErrKeyNotFound = fmt.Errorf("%w", ErrReferenceNotFound)

// ErrReferenceForbidden means that the manager has no permission to read an object that a HelmOp refers to.
var ErrReferenceForbidden = errors.New("the manager may not read it")

// Reader reads the Secrets, ConfigMaps and ServiceAccounts to which HelmOps refer. The cache holds the metadata of all
// objects of the management cluster. A Reader reads the content of an object when a HelmOp refers to the object, and
// again when its resource version changes.
type Reader struct {
	// Metadata is a cached reader for PartialObjectMetadata.
	Metadata client.Reader

	// live reads from the API server.
	live client.Reader

	// ofClusters are the contents of objects of single Clusters. Such an object is read only when its Cluster is rendered,
	// which is rare. In the common cache, these objects would evict the contents that all Clusters share.
	contents, ofClusters *bytelru.Cache[referenceKey, *reference]
}

// NewReader returns a Reader with a cached reader for metadata and a live reader for contents.
func NewReader(metadata, live client.Reader) *Reader {
	return (&Reader{Metadata: metadata, live: live}).WithCaches(defaultBytes)
}

// WithCaches limits each of the two caches of contents to a number of bytes. It drops all contents, and returns the
// Reader.
func (r *Reader) WithCaches(limit int64) *Reader {
	r.contents = bytelru.New[referenceKey, *reference](limit)
	r.ofClusters = bytelru.New[referenceKey, *reference](limit)
	return r
}

// reference is the content of a Secret, a ConfigMap or a ServiceAccount. Callers must not change it.
type reference struct {
	secretType corev1.SecretType
	data       map[string][]byte
	// pullSecrets are the names of the image pull secrets of a ServiceAccount, each once. If there are more than
	// maxPullSecrets names, it has one more than this limit.
	pullSecrets     []string
	resourceVersion string
}

// size returns the size of the whole object in bytes, also of keys to which no HelmOp refers.
func (ref *reference) size() int64 {
	size := 0
	for key, value := range ref.data {
		size += len(key) + len(value)
	}
	for _, name := range ref.pullSecrets {
		size += len(name)
	}
	return int64(size)
}

type referenceKey struct {
	kind string
	client.ObjectKey
}

// read returns the content of an object. Errors may wrap ErrReferenceNotFound or ErrReferenceForbidden.
func (r *Reader) read(ctx context.Context, kind, namespace, name string) (*reference, error) {
	key := referenceKey{kind: kind, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := r.Metadata.Get(ctx, key.ObjectKey, partial); err != nil {
		r.contents.Remove(key)
		return nil, r.readError(key, err)
	}
	if known, ok := r.contents.Get(key); ok && known.resourceVersion == partial.ResourceVersion {
		return known, nil
	}
	ref, err := r.readLive(ctx, key)
	if err != nil {
		return nil, r.readError(key, err)
	}
	r.contents.Put(key, ref, ref.size())
	return ref, nil
}

func (r *Reader) readLive(ctx context.Context, key referenceKey) (*reference, error) {
	switch key.kind {
	case apiutil.KindSecret:
		secret := &corev1.Secret{}
		if err := r.live.Get(ctx, key.ObjectKey, secret); err != nil {
			return nil, err
		}
		return &reference{secretType: secret.Type, data: secret.Data, resourceVersion: secret.ResourceVersion}, nil
	case apiutil.KindServiceAccount:
		account := &corev1.ServiceAccount{}
		if err := r.live.Get(ctx, key.ObjectKey, account); err != nil {
			return nil, err
		}
		ref := &reference{resourceVersion: account.ResourceVersion}
		for _, secret := range account.ImagePullSecrets {
			if len(ref.pullSecrets) <= maxPullSecrets && !slices.Contains(ref.pullSecrets, secret.Name) {
				ref.pullSecrets = append(ref.pullSecrets, secret.Name)
			}
		}
		return ref, nil
	default:
		configMap := &corev1.ConfigMap{}
		if err := r.live.Get(ctx, key.ObjectKey, configMap); err != nil {
			return nil, err
		}
		data := make(map[string][]byte, len(configMap.Data)+len(configMap.BinaryData))
		maps.Copy(data, configMap.BinaryData)
		for k, v := range configMap.Data {
			data[k] = []byte(v)
		}
		return &reference{data: data, resourceVersion: configMap.ResourceVersion}, nil
	}
}

// PullsWith reports whether a ServiceAccount refers to a Secret as image pull secret. It sends no request, and returns
// true if the account is not in the cache.
func (r *Reader) PullsWith(namespace, account, secret string) bool {
	known, ok := r.contents.Get(referenceKey{kind: apiutil.KindServiceAccount,
		ObjectKey: client.ObjectKey{Namespace: namespace, Name: account}})
	return !ok || slices.Contains(known.pullSecrets, secret)
}

// ReadKey returns one key of a Secret or ConfigMap.
func (r *Reader) ReadKey(ctx context.Context, kind, namespace, name, key string) ([]byte, error) {
	ref, err := r.read(ctx, kind, namespace, name)
	if err != nil {
		return nil, err
	}
	return ref.keyOf(key, kind, namespace, name)
}

// keyOf returns the content of a key of an object.
func (ref *reference) keyOf(key, kind, namespace, name string) ([]byte, error) {
	value, ok := ref.data[key]
	if !ok {
		return nil, fmt.Errorf("%s %s/%s has no key %q: %w", kind, namespace, name, key, ErrKeyNotFound)
	}
	return value, nil
}

// Version identifies the current content of a Secret or ConfigMap, without a request. It is empty
// if the object does not exist.
func (r *Reader) Version(ctx context.Context, kind, namespace, name string) (string, error) {
	key := referenceKey{kind: kind, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
	partial := apiutil.PartialOf(kind)
	if err := r.Metadata.Get(ctx, key.ObjectKey, partial); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", r.readError(key, err)
	}
	return partial.ResourceVersion, nil
}

// ReadClusterKey does the same as ReadKey for an object of one Cluster. The caller passes the version of the object,
// see Version.
func (r *Reader) ReadClusterKey(ctx context.Context, kind, namespace, name, key, version string) ([]byte, error) {
	object := referenceKey{kind: kind, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
	if version == "" {
		return nil, r.readError(object, apierrors.NewNotFound(corev1.Resource(kind), name))
	}
	known, ok := r.ofClusters.Get(object)
	if !ok || known.resourceVersion != version {
		var err error
		if known, err = r.readLive(ctx, object); err != nil {
			r.ofClusters.Remove(object)
			return nil, r.readError(object, err)
		}
		r.ofClusters.Put(object, known, known.size())
	}
	return known.keyOf(key, kind, namespace, name)
}

func (r *Reader) readError(key referenceKey, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s: %w; create it or correct the reference", key.kind, key.ObjectKey, ErrReferenceNotFound)
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s %s: %w; grant its ServiceAccount the right to read it", key.kind, key.ObjectKey,
			ErrReferenceForbidden)
	}
	return fmt.Errorf("reading %s %s: %w", key.kind, key.ObjectKey, err)
}

// Policy reads the signature policy of a HelmOp; nil if the HelmOp has none.
func (r *Reader) Policy(ctx context.Context, helmOp *addonsv1.HelmOp) (*verification.Policy, error) {
	verify := helmOp.Spec.Source.Verify
	if verify == nil {
		return nil, nil
	}
	policy := &verification.Policy{Provider: verification.Provider(cmp.Or(verify.Provider,
		addonsv1.VerificationProviderCosign))}
	for _, identity := range verify.Identities {
		policy.Identities = append(policy.Identities, verification.Identity(identity))
	}
	if verify.SecretRef != nil {
		secret, err := r.read(ctx, apiutil.KindSecret, helmOp.Namespace, verify.SecretRef.Name)
		if err != nil {
			return nil, fmt.Errorf("spec.source.verify.secretRef: %w", err)
		}
		addTrust(policy, secret.data)
	}
	if verify.TrustedRootSecretRef != nil {
		root, err := r.ReadKey(ctx, apiutil.KindSecret, helmOp.Namespace, verify.TrustedRootSecretRef.Name, trustedRootKey)
		if err != nil {
			return nil, fmt.Errorf("spec.source.verify.trustedRootSecretRef: %w", err)
		}
		policy.TrustedRoot = root
	}
	return policy, nil
}

// addTrust adds the keys, or the trust policy and the certificates, of a Secret to a policy.
func addTrust(policy *verification.Policy, data map[string][]byte) {
	withSuffix := func(suffixes ...string) map[string][]byte {
		found := map[string][]byte{}
		for key, value := range data {
			for _, suffix := range suffixes {
				if strings.HasSuffix(key, suffix) {
					found[key] = value
				}
			}
		}
		return found
	}
	switch policy.Provider {
	case verification.Notation:
		policy.TrustPolicy, policy.Certificates = data[trustPolicyKey], withSuffix(".crt", ".pem")
	case verification.HelmProvenance:
		policy.Keyrings = withSuffix(".gpg", ".pgp", ".asc")
	default:
		policy.Keys = withSuffix(".pub")
	}
}

// PolicyDigest returns the digest of a policy; empty without a policy.
func PolicyDigest(policy *verification.Policy) string {
	if policy == nil {
		return ""
	}
	return policy.Digest()
}

// Of returns the objects that a HelmOp refers to, as "<kind>/<name>". It omits objects whose names depend on the
// Cluster: see Patterns.
func Of(helmOp *addonsv1.HelmOp) []string {
	var references []string
	source := &helmOp.Spec.Source
	secrets := []*addonsv1.SecretReference{source.SecretRef, source.CertSecretRef, source.ProxySecretRef}
	if storage := helmOp.Spec.Storage; storage != nil && storage.Registry != nil {
		secrets = append(secrets, storage.Registry.SecretRef, storage.Registry.CertSecretRef, storage.Registry.ProxySecretRef)
	}
	if source.Verify != nil {
		secrets = append(secrets, source.Verify.SecretRef, source.Verify.TrustedRootSecretRef)
	}
	for _, ref := range secrets {
		if ref != nil {
			references = append(references, apiutil.KindSecret+"/"+ref.Name)
		}
	}
	if source.ImagePullServiceAccountName != "" {
		references = append(references, apiutil.KindServiceAccount+"/"+source.ImagePullServiceAccountName)
	}
	for _, ref := range valuesFrom(helmOp) {
		if !IsNameTemplate(helmOp, ref) {
			references = append(references, ref.Kind+"/"+ref.Name)
		}
	}
	return references
}

// valuesFrom returns all references to values in a HelmOp, including those of its overrides.
func valuesFrom(helmOp *addonsv1.HelmOp) []*addonsv1.ValuesReference {
	var refs []*addonsv1.ValuesReference
	add := func(list []addonsv1.ValuesReference) {
		for i := range list {
			refs = append(refs, &list[i])
		}
	}
	add(helmOp.Spec.ValuesFrom)
	for i := range helmOp.Spec.Overrides {
		add(helmOp.Spec.Overrides[i].ValuesFrom)
	}
	return refs
}

// Delimiters returns the template delimiters of a HelmOp.
func Delimiters(helmOp *addonsv1.HelmOp) templating.Delimiters {
	if helmOp.Spec.TemplateDelimiters == addonsv1.TemplateDelimitersDollar {
		return templating.Dollar
	}
	return templating.Curly
}

// IsNameTemplate reports whether a reference names a different object for each Cluster.
func IsNameTemplate(helmOp *addonsv1.HelmOp, ref *addonsv1.ValuesReference) bool {
	_, _, isTemplate := templating.Literals(ref.Name, Delimiters(helmOp))
	return isTemplate
}

// HasFixedValues reports whether a HelmOp reads values from objects that several Clusters share. The content of these
// objects is part of the HelmOp revision. After a change of the content, the revision cannot be rendered any more.
func HasFixedValues(helmOp *addonsv1.HelmOp) bool {
	return slices.ContainsFunc(valuesFrom(helmOp),
		func(ref *addonsv1.ValuesReference) bool { return !IsNameTemplate(helmOp, ref) })
}

// Pattern is the constant part of the names that the template of a reference can produce.
type Pattern struct {
	// Kind is the kind of the objects.
	Kind string

	prefix, suffix string
}

// Patterns returns the patterns of the references of a HelmOp whose names are templates.
func Patterns(helmOp *addonsv1.HelmOp) []Pattern {
	var patterns []Pattern
	for _, ref := range valuesFrom(helmOp) {
		if prefix, suffix, isTemplate := templating.Literals(ref.Name, Delimiters(helmOp)); isTemplate {
			patterns = append(patterns, Pattern{Kind: ref.Kind, prefix: prefix, suffix: suffix})
		}
	}
	return patterns
}

// MayYield reports whether the template can produce the name of an object.
func (p Pattern) MayYield(kind, name string) bool {
	return kind == p.Kind && len(name) >= len(p.prefix)+len(p.suffix) &&
		strings.HasPrefix(name, p.prefix) && strings.HasSuffix(name, p.suffix)
}
