"""The user API. Decorators only build declarations; nothing here runs anything.

import tidemill as tm

wf = tm.Workflow("news")
articles = wf.input("articles", "url string, site string, body string")

@wf.task
def digests(articles: tm.New) -> tm.Delta:
    return articles.selectExpr("url", "sha2(body, 256) AS digest")
"""
