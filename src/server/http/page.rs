//! The page at `/`: three files that are part of the program.
use super::protocol;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

/// Only the files of the page are loaded, nothing is sent elsewhere, and text never becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The files, with their paths and media types.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
];

/// The paths of the files.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, ..)| *path)
}

/// Whether there is a file at this path.
pub(super) fn has(path: &str) -> bool {
    paths().any(|file| file == path)
}

/// Serves the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page;

impl Service<Request<Body>> for Page {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_grpc = request.headers().get(CONTENT_TYPE).is_some_and(protocol::is_grpc);
        ready(Ok(match is_grpc {
            true => Status::unimplemented("the server has no such service").into_http(),
            false => answer(request.method(), request.uri().path()),
        }))
    }
}

fn answer(method: &Method, path: &str) -> Response<Body> {
    let with = |status, name, value, text: &'static str| {
        let mut response = Response::new(Body::new(Full::new(Bytes::from_static(text.as_bytes()))));
        *response.status_mut() = status;
        response.headers_mut().insert(name, HeaderValue::from_static(value));
        response
    };
    let Some((_, media_type, text)) = FILES.into_iter().find(|(file, ..)| *file == path) else {
        return with(StatusCode::NOT_FOUND, CONTENT_TYPE, "text/plain", "there is nothing at this path\n");
    };
    if *method != Method::GET && *method != Method::HEAD {
        return with(StatusCode::METHOD_NOT_ALLOWED, ALLOW, "GET, HEAD", "GET the page\n");
    }
    let mut response = with(StatusCode::OK, CONTENT_TYPE, media_type, text);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read_and_nothing_else_is_there() {
        let status = |method, path| answer(&method, path).status().as_u16();
        for path in paths() {
            assert_eq!(
                (status(Method::GET, path), status(Method::HEAD, path), status(Method::POST, path)),
                (200, 200, 405)
            );
        }
        assert_eq!(status(Method::GET, "/page.html"), 404);
    }

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let all: Vec<_> = FILES.iter().map(|(.., text)| *text).collect();
        let bytes: usize = all.iter().map(|text| text.len()).sum();
        assert!(bytes <= 40_000, "{bytes}");
        assert!(!all.concat().contains("://"), "an address of somebody else");
    }

    #[test]
    fn the_policy_allows_the_files_of_the_page_and_no_markup_from_text() {
        let answer = answer(&Method::GET, "/");
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"] {
            assert!(policy.split("; ").any(|there| there == part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
