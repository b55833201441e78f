//! Finds the service for the path of a request.
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::Service;

/// The future of a response.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

type Handler = Box<dyn Fn(Request<Body>) -> Answering + Send + Sync>;

/// All services of a server, by the path of a request.
pub(crate) struct Services {
    /// By the name of the service, which is the first part of the path.
    by_name: Vec<(&'static str, Handler)>,
    /// By the whole path.
    by_path: Vec<(&'static str, Handler)>,
    rest: Handler,
}

impl Services {
    /// All requests go to `service`.
    pub(super) fn all_by<S: Serves>(service: S) -> Self {
        Services { by_name: Vec::new(), by_path: Vec::new(), rest: handler(service) }
    }

    /// Adds `service` under this name.
    pub(super) fn and<S: Serves>(mut self, name: &'static str, service: S) -> Self {
        self.by_name.push((name, handler(service)));
        self
    }

    /// Adds `service` at this path.
    pub(super) fn and_at<S: Serves>(mut self, path: &'static str, service: S) -> Self {
        self.by_path.push((path, handler(service)));
        self
    }

    /// Serves a request.
    pub(crate) fn call(&self, request: Request<Body>) -> Answering {
        let path = request.uri().path();
        let name = path.get(1..).and_then(|path| path.split_once('/')).map(|(name, _)| name);
        let of_name = self.by_name.iter().find(|(of, _)| Some(*of) == name);
        let handler = of_name.or_else(|| self.by_path.iter().find(|(of, _)| *of == path));
        handler.map_or(&self.rest, |(_, handler)| handler)(request)
    }
}

/// A service that can be served: it takes requests of any method, and is always ready.
pub(super) trait Serves:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Serves for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Our services are always ready.
fn handler<S: Serves>(service: S) -> Handler {
    Box::new(move |request| Box::pin(service.clone().call(request)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{Ready, ready};
    use std::task::{Context, Poll};

    #[derive(Clone)]
    struct Says(&'static str);

    impl Service<Request<Body>> for Says {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            ready(Ok(Response::builder().header("says", self.0).body(Body::empty()).expect("it is valid")))
        }
    }

    #[tokio::test]
    async fn the_service_is_found_by_its_name_or_the_whole_path() {
        let services = Services::all_by(Says("rest"))
            .and("a.B", Says("named"))
            .and("a.C", Says("older"))
            .and_at("/", Says("page"))
            .and_at("/a.js", Says("script"));
        for (path, says) in [
            ("/a.B/Method", "named"),
            ("/a.B/", "named"),
            ("/a.C/Method", "older"),
            ("/a.B", "rest"),
            ("/a.Bc/Method", "rest"),
            ("/", "page"),
            ("/a.js", "script"),
            ("/a.js/", "rest"),
            ("*", "rest"),
        ] {
            let request = Request::builder().uri(path).body(Body::empty()).expect("it is valid");
            let response = services.call(request).await.expect("it cannot fail");
            assert_eq!(response.headers()["says"], says, "{path}");
        }
    }
}
