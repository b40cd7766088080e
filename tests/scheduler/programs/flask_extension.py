"""Flask with the extension: tasks are declared before there is an application, and run in its context."""

import os

from flask import Flask, current_app

from everwhen.flask import EverwhenFlask

everwhen = EverwhenFlask()


@everwhen.every("1s", id="tick", catch_up="run_all", if_running="queue")
def tick() -> str:
    return f"{current_app.config['WORD']} {os.getpid()}"


def create_app() -> Flask:
    app = Flask(__name__)
    app.config.update(EVERWHEN_DATABASE=os.environ["SHOP_DATABASE"], EVERWHEN_NAME="shop", WORD="process")
    everwhen.init_app(app)
    app.add_url_rule("/", "status", everwhen.get_status)
    everwhen.start()
    return app
