// Command manager is a controller-runtime program that is its own judge.
//
// It does against the server in KUBECONFIG what a thousand operators do: install a CRD, elect a leader, fill
// an informer cache, reconcile objects with children and finalizers, then sit still. It prints one `ok` line
// per finding and exits non-zero at the first that does not hold. The strictest finding is about silence:
// once the caches are filled, the manager must not list or watch again, because a server that drops watches
// or loses resource versions looks healthy from everywhere except the wire.
//
// Run it once plainly and once with KUBE_FEATURE_WatchListClient=true; the second makes informers start from
// `sendInitialEvents` instead of a list.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"
)

//go:embed widgets.yaml
var widgetsCRD []byte

const leaseName = "widget-manager"

type driver struct {
	cfg     *rest.Config
	scheme  *runtime.Scheme
	client  client.Client
	typed   *kubernetes.Clientset
	own     *traffic // what the driver's typed client sends
	manager *traffic // what the manager sends
	ns      string
	widgets int
	steady  time.Duration

	onlyWorkloads bool
}

func main() {
	widgets := flag.Int("widgets", 20, "how many objects to reconcile")
	steady := flag.Duration("steady", 5*time.Second, "how long to sit still at the end")
	workloads := flag.Bool("workloads", false, "own Deployments instead, on a server that runs them")
	timeout := flag.Duration("timeout", 2*time.Minute, "give up after this long")
	flag.Parse()
	ctrl.SetLogger(klog.Background())

	ctx, cancel := context.WithTimeoutCause(context.Background(), *timeout, fmt.Errorf("not done after %s", *timeout))
	defer cancel()
	d := &driver{onlyWorkloads: *workloads, widgets: *widgets, steady: *steady, own: newTraffic(), manager: newTraffic()}
	if err := d.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL %v\nmanager traffic: %s\n", err, d.manager.summary())
		os.Exit(1)
	}
}

func (d *driver) run(ctx context.Context) error {
	if err := d.connect(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := d.installCRD(ctx); err != nil {
		return fmt.Errorf("install CRD: %w", err)
	}
	ok("crd established")
	ns, err := d.typed.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "widgets-"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	d.ns = ns.Name
	// Best effort and with its own deadline: the judgement is already made when these run.
	defer d.cleanUp()

	if d.onlyWorkloads {
		return d.workloads(ctx)
	}
	managerCtx, stop := context.WithCancel(ctx)
	defer stop()
	stopped, err := d.startManager(managerCtx)
	if err != nil {
		return fmt.Errorf("start manager: %w", err)
	}
	ok("manager leads with synced caches")

	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"first widget reconciled", func(ctx context.Context) error { return d.createAndWait(ctx, 0, 1) }},
		{"counting requests from here", func(context.Context) error { d.manager.mark(); return nil }},
		{"all widgets reconciled", func(ctx context.Context) error { return d.createAndWait(ctx, 1, d.widgets) }},
		{"children owned, typed protobuf read", d.checkOwners},
		{"updates reconciled", d.updateAndWait},
		{"deleted child comes back", d.deleteChildAndWait},
		{"invalid widget refused", d.refuseInvalid},
		{"lease held", d.checkLease},
		{"finalizers completed, children gone", d.deleteAndWait},
		{"steady state without relists or watch restarts", d.checkSilence},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		ok(step.name)
	}

	stop()
	select {
	case err := <-stopped:
		if err != nil {
			return fmt.Errorf("manager: %w", err)
		}
	case <-ctx.Done():
		return fmt.Errorf("manager did not stop: %w", context.Cause(ctx))
	}
	lease, err := d.typed.CoordinationV1().Leases(d.ns).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("lease after stop: %w", err)
	}
	if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
		return fmt.Errorf("lease still held by %q after the manager stopped", *h)
	}
	ok("lease released")
	if d.own.protobufBodies() == 0 || d.manager.protobufBodies() == 0 {
		return errors.New("no protobuf bodies were sent; the test has lost its point")
	}
	ok("protobuf bodies accepted")
	fmt.Println("ok manager traffic:", d.manager.summary())
	return nil
}

func ok(what string) { fmt.Println("ok", what) }

func (d *driver) connect() error {
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return err
	}
	// The default limiter of 5 requests a second would make this a test of patience.
	cfg.QPS, cfg.Burst = 200, 400
	d.cfg, d.scheme = cfg, runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, apiextensionsv1.AddToScheme, widgetScheme.AddToScheme,
	} {
		if err := add(d.scheme); err != nil {
			return err
		}
	}
	if d.client, err = client.New(cfg, client.Options{Scheme: d.scheme}); err != nil {
		return err
	}
	typed := rest.CopyConfig(cfg)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed.Wrap(d.own.wrap)
	d.typed, err = kubernetes.NewForConfig(typed)
	return err
}

func (d *driver) installCRD(ctx context.Context) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(widgetsCRD, crd); err != nil {
		return err
	}
	if err := d.client.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		if err := d.client.Get(ctx, client.ObjectKey{Name: crd.Name}, crd); err != nil {
			return false, err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

func (d *driver) startManager(ctx context.Context) (<-chan error, error) {
	cfg := rest.CopyConfig(d.cfg)
	cfg.Wrap(d.manager.wrap)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        d.scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       d.ns,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&Widget{}).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{Client: mgr.GetClient(), events: mgr.GetEventRecorderFor("widget-manager")})
	if err != nil {
		return nil, err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	select {
	case <-mgr.Elected():
	case err := <-stopped:
		return nil, fmt.Errorf("stopped before it led: %w", err)
	case <-ctx.Done():
		return nil, fmt.Errorf("not elected: %w", context.Cause(ctx))
	}
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, errors.New("caches did not sync")
	}
	return stopped, nil
}

func (d *driver) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = d.typed.CoreV1().Namespaces().Delete(ctx, d.ns, metav1.DeleteOptions{})
	_ = d.client.Delete(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.demo.zaffre.io"}})
}

// poll asks until the answer is yes. The driver looks from outside on purpose: it must not share the
// manager's caches, whose truth is in question.
func poll(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, condition)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// conflicts retries a read-modify-write that lost a race against the manager.
func conflicts(do func() error) error { return retry.RetryOnConflict(retry.DefaultBackoff, do) }
